"""The process of `stepscope run` in a job: a rank itself, or the one that starts the ranks."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stepscope.cli.ranks import children
from stepscope.cli.ranks.folder import (
    check_folder,
    default_folder,
    rank_name,
    ranks_in,
    run_folder,
)
from stepscope.cli.ranks.member import Ticket
from stepscope.cli.ranks.order import Order
from stepscope.trace import launcher
from stepscope.trace.kinds import SliceKind
from stepscope.trace.launcher import Place
from stepscope.trace.placing import TRACE_SUFFIX

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from stepscope.trace.model import Trace

LAUNCHER = "launcher"
_FEWEST_OPERATORS = 100  # of a process that does more than to start others


def place_of_rank() -> Place | None:
    """Return this process's place in a job of several, as its launcher says."""
    place = launcher.place_of_process()
    return place if place is not None and place.world_size > 1 else None


def own_output(args: argparse.Namespace, stem: str, place: Place) -> Path:
    """Return where this rank's trace goes; its folder exists then."""
    if args.output is None:
        folder, suffix = default_folder(stem, place), TRACE_SUFFIX
    else:
        folder, suffix = run_folder(args.output)
        check_folder(folder, place.rank, force=args.force)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"rank-{place.rank}{suffix}"


class Job:
    """What becomes of the processes that the program starts, if any of them is a rank."""

    def __init__(
        self, args: argparse.Namespace, output: Path, stem: str, place: Place | None
    ) -> None:
        """Plan where the ranks would be saved; nothing is made before the first one is."""
        self.place = place
        if place is not None:
            folder, suffix = output.parent, TRACE_SUFFIX
        elif args.output is None:
            folder, suffix = default_folder(stem), TRACE_SUFFIX
        else:
            folder, suffix = run_folder(args.output)
        self.shown = folder
        self.folder = folder.absolute()
        # What is replaced stays until all is there.
        self._is_aside = self.folder.exists() and place is None
        if self._is_aside:
            self.folder = self.folder.with_name(f"{self.folder.name}-{secrets.token_hex(4)}")
        self._order = Order.of(
            args,
            folder=str(self.folder),
            suffix=suffix,
            run_id=f"{stem}-{secrets.token_hex(8)}",
            rank_outside=str(launcher.place_of_process()),
        )

    def told(self) -> dict[str, Any]:
        """Return what ``of_told`` needs in another process, as JSON can have it."""
        return {
            "place": asdict(self.place) if self.place is not None else None,
            "shown": str(self.shown),
            "folder": str(self.folder),
            "is_aside": self._is_aside,
            "order": self._order.text(),
        }

    @classmethod
    def of_told(cls, told: Mapping[str, Any]) -> Job:
        """Stand in for the process that has told it, which has ended."""
        job = cls.__new__(cls)
        job.place = Place(**told["place"]) if told["place"] is not None else None
        job.shown = Path(told["shown"])
        job.folder = Path(told["folder"])
        job._is_aside = told["is_aside"]
        job._order = Order.of_text(told["order"])
        return job

    def __enter__(self) -> Self:
        """Tell all processes that the program starts; those of a rank are its own affair."""
        if self.place is None:
            launcher.run_id_given = self._order.run_id
            children.pass_on(Ticket(self._order))
        return self

    def __exit__(self, *_: object) -> None:
        """Tell no more of them."""
        children.pass_on_no_more()

    @property
    def prints(self) -> bool:
        """Tell whether this process speaks for the whole job."""
        return self.place is None or self.place.rank == 0

    def seal_ranks(self) -> None:
        """Save what ranks left that the program had started, and that were killed."""
        from stepscope.cli.ranks.left import seal_with_patience

        if self.place is None:
            seal_with_patience(self.folder, self._order.suffix)

    def ranks(self) -> dict[int, Path]:
        """Return the traces of ranks that are there by now."""
        return ranks_in(self.folder)

    def own_path(self, trace: Trace) -> Path | None:
        """Return where the trace of the process that started the ranks goes; None for nowhere.

        It may be a rank itself, or have done work of its own.
        """
        if trace.info.rank is not None:
            return self.folder / rank_name(trace, self._order.suffix)
        operators = int((trace.slices.kind == SliceKind.OPERATOR).sum())
        if operators < _FEWEST_OPERATORS:
            return None
        return self.folder / f"{LAUNCHER}{self._order.suffix}"

    def settle(self) -> None:
        """Move the folder to where the user wants it, in the place of what was there."""
        if self._is_aside:
            from stepscope.trace.placing import move_instead, staging_folder

            wanted = self.shown.absolute()
            with staging_folder(wanted.parent) as folder:
                written = folder / "job"
                self.folder.rename(written)
                move_instead(written, wanted)
            self.folder, self._is_aside = wanted, False
