"""What killed ranks left behind: their streams, which become traces of the job like any other.

The process that started the ranks saves them; after its death, its watcher or a reader does.
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.ranks.folder import rank_name, ranks_in
from stepscope.errors import StepscopeError, TraceReadWarning
from stepscope.notices import notify
from stepscope.record.stream.places import is_unsealed, read_folders
from stepscope.trace import launcher
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.trace.store import is_stored_trace

if TYPE_CHECKING:
    from stepscope.cli.ranks.order import Order
    from stepscope.record.stream.places import StreamFolders
    from stepscope.record.stream.run import RunStream

_PATIENCE_S = 1.0  # with ranks that are about to end, as their launcher is
_SUFFIX = "suffix"


def started_stream(order: Order) -> RunStream | None:
    """Have what this rank records outlive it; None where that is not wanted, or cannot be."""
    if not order.stream:
        return None
    from stepscope.record.stream.run import RunStream

    place = launcher.place_of_process()
    name = f"process-{os.getpid()}" if place is None else f"rank-{place.rank}"
    folder = Path(order.folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None  # saving will say what is wrong
    return RunStream.begin(
        folder / f"{name}{TRACE_SUFFIX}",
        lambda claimed: {"program": name, "output": str(claimed), _SUFFIX: order.suffix},
    )


def seal_ranks(folder: Path, *, suffix: str | None = None, patience_s: float = 0.0) -> None:
    """Save the traces of the ranks in a job's folder that were killed; the living ones go on.

    Whoever has made the folder gives the suffix of its traces. Others seal only what is provably
    this user's own.
    """
    until = time.monotonic() + patience_s
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not is_unsealed(path):
            continue
        try:
            from stepscope.record.stream.sealing import only_sealer

            left = read_folders(path)
            if suffix is None and not left.is_ours:
                continue
            wanted = suffix or left.about.get(_SUFFIX)
            if isinstance(wanted, str) and _has_ended(left, until):
                with only_sealer(path) as is_left:
                    if is_left:
                        _seal(path, replace(left, is_ours=True), wanted)
        except (StepscopeError, ValueError, OSError) as error:
            notify(f"what {path.name} recorded cannot be sealed: {error}")


def is_job(path: str) -> bool:
    """Tell whether a path is a folder that holds the traces of ranks, and is no trace itself.

    What killed ranks left there is sealed first.
    """
    place = Path(path)
    if place.is_dir() and not is_stored_trace(place):
        seal_ranks(place)
    if is_unsealed(place):
        return bool(ranks_in(place))  # of a program whose ranks were saved there before its death
    return place.is_dir() and not is_stored_trace(place) and not (place / "meta.json").exists()


def seal_with_patience(folder: Path, suffix: str) -> None:
    """Save them at the end of the process that started them: the last may be ending, too."""
    seal_ranks(folder, suffix=suffix, patience_s=_PATIENCE_S)


def _has_ended(left: StreamFolders, until: float) -> bool:
    while left.owner.is_alive():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


def _seal(path: Path, left: StreamFolders, suffix: str) -> None:
    from stepscope.cli.saving import save_somewhere
    from stepscope.record.stream.recovering import recover
    from stepscope.record.stream.run import remove_unsealed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceReadWarning)
        trace = recover(path)
    target = path.parent / rank_name(trace, suffix)
    saved = save_somewhere(trace, target, force=is_unsealed(target))
    if saved is None:
        return
    left.forget_memory()
    remove_unsealed(path)
    who = f"process {left.owner.pid}" if trace.info.rank is None else f"rank {trace.info.rank}"
    notify(f"{who} ended abnormally: {trace.info.sources['stream']}; saved {saved.name}")
