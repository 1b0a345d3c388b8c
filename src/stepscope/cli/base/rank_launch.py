"""A run in a job: it is one rank of several itself, or its program starts the ranks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.base.rank_folder import (
    check_folder,
    default_folder,
    rank_name,
    ranks_in,
    run_folder,
)
from stepscope.notices import notify
from stepscope.record.stream.places import is_unsealed, only_sealer, read_folders, remove_unsealed
from stepscope.trace import launcher
from stepscope.trace.launcher import Place
from stepscope.trace.placing import TRACE_SUFFIX, move_instead, staging_folder

if TYPE_CHECKING:
    from stepscope.record.read_back.family import Family

LAUNCHER = "launcher"


def place_of_rank() -> Place | None:
    """Return this process's place in a job of several processes, from its environment."""
    place = launcher.place_of_process()
    return place if place is not None and place.world_size > 1 else None


def own_output(args: argparse.Namespace, stem: str, place: Place) -> Path:
    """Return where this rank's trace goes, and make its folder."""
    if args.output is None:
        folder, suffix = default_folder(stem, place), TRACE_SUFFIX
    else:
        folder, suffix = run_folder(args.output)
        check_folder(folder, place.rank, force=args.force)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"rank-{place.rank}{suffix}"


class Job:
    """Where the traces of the ranks go, if the program starts any; it may be one rank itself."""

    def __init__(
        self, place: Place | None, shown: Path, folder: Path, suffix: str, run_id: str
    ) -> None:
        """Traces are written to ``folder``, and moved to ``shown`` when all are there."""
        self.place = place
        self.shown = shown
        self.folder = folder
        self.suffix = suffix
        self.run_id = run_id

    @classmethod
    def of(cls, args: argparse.Namespace, output: Path, stem: str, place: Place | None) -> Job:
        """Plan where the ranks would be saved; nothing is made before the first one is."""
        suffix = TRACE_SUFFIX
        if place is not None:
            shown = output.parent
        elif args.output is None:
            shown = default_folder(stem)
        else:
            shown, suffix = run_folder(args.output)
        folder = shown.absolute()
        if folder.exists() and place is None:
            folder = folder.with_name(f"{folder.name}-{os.urandom(4).hex()}")
        return cls(place, shown, folder, suffix, f"{stem}-{os.urandom(8).hex()}")

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them; ``from_json`` reads them in another process."""
        return {
            **{name: str(getattr(self, name)) for name in ("shown", "folder", "suffix", "run_id")},
            "place": self.place._asdict() if self.place is not None else None,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Job:
        """Return the job that ``to_json`` described."""
        place = Place(**fields["place"]) if fields["place"] is not None else None
        folder, shown = Path(fields["folder"]), Path(fields["shown"])
        return cls(place, shown, folder, fields["suffix"], fields["run_id"])

    @property
    def prints(self) -> bool:
        """Tell whether this run speaks for the whole job."""
        return self.place is None or self.place.rank == 0

    def save(self, family: Family) -> None:
        """Save the traces of the ranks, and of the process that started them if it did work."""
        from stepscope.cli.base.saving import save_somewhere

        launcher.run_id_given = self.run_id
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for member in family.ranks:
            trace = family.trace_of(member)
            wanted = self.folder / rank_name(trace, self.suffix)
            saved = save_somewhere(trace, wanted, force=False)
            missing = trace.info.sources.get("stream")
            if missing and saved is not None:
                who = f"rank {trace.info.rank} ended abnormally"
                notify(f"{who}: {missing}; saved {saved.name}")
        busy = family.launcher()
        if busy is not None:
            target = self.folder / f"{LAUNCHER}{self.suffix}"
            save_somewhere(family.trace_of(busy), target, force=False)

    def ranks(self) -> dict[int, Path]:
        """Return the traces of ranks that are saved by now."""
        return ranks_in(self.folder)

    def settle(self) -> None:
        """Move the folder to where the user wants it, in the place of what was there."""
        wanted = self.shown.absolute()
        if self.folder != wanted:
            with staging_folder(wanted.parent) as folder:
                written = folder / "job"
                self.folder.rename(written)
                move_instead(written, wanted)
            self.folder = wanted


def is_job(path: str) -> bool:
    """Tell whether a path is a folder that holds the traces of ranks, and is no trace itself."""
    place = Path(path)
    if is_unsealed(place):
        return _sealed_as_job(place) or bool(ranks_in(place))
    from stepscope.trace.store import is_stored_trace  # not needed to start a run

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
        from stepscope.record.read_back.family import Family  # it imports NumPy

        family = Family(folders)
        if not family.ranks:
            return False
        Job(None, place, place.absolute(), TRACE_SUFFIX, place.stem).save(family)
        folders.forget_memory()
        remove_unsealed(place)
        return True
