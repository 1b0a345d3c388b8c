"""Writes one capture of a running run from its streams, in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import StepscopeError
from stepscope.live.captures import save
from stepscope.record.read_back.family import Family
from stepscope.record.stream.places import StreamFolders, is_unsealed, only_sealer, own_folders

if TYPE_CHECKING:
    from stepscope.trace.model import Trace


def main() -> None:
    """Take the folders on disk and in memory, and what is to be written; print what went wrong."""
    disk, memory, text = sys.argv[1:]
    request = json.loads(text)
    try:
        trace = _trace_of_window(own_folders(Path(disk), Path(memory) if memory else None), request)
        save(trace, request["why"], Path(request["path"]), quiet=request["is_quiet"])
    except Exception as error:
        print(str(error) or type(error).__name__)
        sys.exit(1)


def _trace_of_window(folders: StreamFolders, request: Mapping[str, Any]) -> Trace:
    with only_sealer(
        Path(folders.disk if is_unsealed(folders.disk) else folders.shared)
    ) as is_left:
        if not is_left:
            raise StepscopeError("the run has ended")
        since_ns = request["start_ns"]
        family = Family(folders, is_rank=request["is_rank"], since_ns=since_ns)
        # A few seconds may hold no step by which to recognise the program.
        candidates = family.members if since_ns else family.ranks
        asked_for = [member for member in candidates if member.pid == request["pid"]]
        member = asked_for[-1] if asked_for else family.program()
        if member is None:
            raise StepscopeError("nothing has been recorded yet")
        return family.trace_of(member, since_ns)
