"""Jobs whose run was killed: what their ranks recorded is saved when somebody reads it."""

from __future__ import annotations

from pathlib import Path

from stepscope.cli.ranks.folder import ranks_in
from stepscope.cli.ranks.launch import Job
from stepscope.record.stream.family import Family
from stepscope.record.stream.places import is_unsealed, only_sealer, read_folders, remove_unsealed
from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.trace.store import is_stored_trace


def is_job(path: str) -> bool:
    """Tell whether a path is a folder that holds the traces of ranks, and is no trace itself."""
    place = Path(path)
    if is_unsealed(place):
        return _sealed_as_job(place) or bool(ranks_in(place))
    return place.is_dir() and not is_stored_trace(place) and not (place / "meta.json").exists()


def _sealed_as_job(place: Path) -> bool:
    """Save the ranks that a run has left, if there are any, in the folder of its stream."""
    with only_sealer(place) as is_left:
        if not is_left:
            return False
        try:
            folders = read_folders(place)
        except ValueError:
            return False
        if not folders.is_ours or folders.owner.is_alive():
            return False
        family = Family(folders)
        if not family.ranks:
            return False
        Job(None, place, place.absolute(), TRACE_SUFFIX, place.stem).save(family)
        folders.forget_memory()
        remove_unsealed(place)
        return True
