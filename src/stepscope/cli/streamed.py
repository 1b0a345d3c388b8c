"""A run that is streamed, from its first moment on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepscope.cli.signals import held_signals
from stepscope.record.stream.processes import killed_for_memory
from stepscope.record.stream.run import RunStream

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.cli.ranks.launch import Job

_WATCHER = "stepscope.cli.watcher"
# Of the options of a run, those that say what is made of its recording.
_OPTIONS = ("force", "quiet", "no_summary", "report", "sort_by", "row_limit", "no_source")


@held_signals()  # until somebody watches, who removes what we leave
def started_stream(
    output: Path, name: str, sources: Sequence[Path], args: argparse.Namespace, job: Job
) -> RunStream | None:
    """Begin to stream a run, and have somebody wait for its end; None where it is not wanted.

    A ring is not streamed: what is noted beside the records would grow without end.
    """
    from stepscope.cli.terminal import own_command

    if not args.stream or args.last is not None:
        return None
    if output.exists() and not (output.is_dir() or output.is_file()):
        return None  # a device or a pipe
    replaces_json = args.json is not None and args.json.exists()

    def about(claimed: Path) -> dict[str, Any]:
        return {
            "program": name,
            "output": str(claimed),
            "shown": str(output),
            "sources": [str(folder) for folder in sources],
            "options": {option: getattr(args, option) for option in _OPTIONS},
            "json": str(args.json.absolute()) if args.json else None,
            "replaces_json": replaces_json,
            "job": job.told(),
            "command": own_command(),
            "killed_for_memory": killed_for_memory(os.getpid()),
        }

    stream = RunStream.begin(output, about, replaces=args.force and output.exists())
    if stream is not None:
        stream.watch(_WATCHER)
    return stream


def shown_output(output: Path, stream: RunStream | None) -> Path:
    """Return the output as the user would write it, under the name that the stream has taken."""
    if stream is None or not stream.output.name.endswith(output.suffix):
        return output
    return output.with_name(stream.output.name)
