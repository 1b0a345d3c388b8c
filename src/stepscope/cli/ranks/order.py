"""What `stepscope run` tells the processes of a job: how to record, and where to save."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.record.group_makers import GROUP_MAKERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.record.session import Session

VARIABLE = "STEPSCOPE_JOB"
START_FOLDER = str(Path(__file__).parent / "start")
_PACKAGE_FOLDER = str(Path(__file__).parents[3])
_OURS = ("memory_limit", "keep")


@dataclass(frozen=True, slots=True)
class Order:
    """Picklable, and small enough for an environment variable."""

    folder: str  # absolute: programs change theirs
    suffix: str
    run_id: str
    force: bool
    options: Mapping[str, Any]  # of the command line, as far as recording needs them
    group_makers: Sequence[Mapping[str, Any]]  # so that a process looks for no extensions
    stream: bool = False  # whether what a rank records is to outlive it
    rank_outside: str = ""  # what the environment called the process that began
    python: str = sys.version.partition(" ")[0]
    package: str = _PACKAGE_FOLDER

    @staticmethod
    def of(args: argparse.Namespace, **rest: Any) -> Order:
        """Take what the user asked for."""
        options = {
            name: value
            for name, value in vars(args).items()
            if name in _OURS or name.startswith("record_")
        }
        if args.last is not None:
            options["last"] = asdict(args.last)
        stream = args.stream and args.last is None
        makers = [asdict(each) for each in GROUP_MAKERS]
        return Order(options=options, group_makers=makers, force=args.force, stream=stream, **rest)

    def text(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @staticmethod
    def of_text(text: str) -> Order:
        """Take what ``text`` has returned."""
        return Order(**json.loads(text))

    def session(self) -> Session:
        """Return what records as `stepscope run` does."""
        from stepscope.record.limits import Last

        told = self.options.get("last")
        ring = Last(**told) if told is not None else None
        return recording_session(argparse.Namespace(**{**self.options, "last": ring}))

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for a program that is started: Python runs ``start/`` first."""
        path = given.get("PYTHONPATH", "")
        with_ours = f"{START_FOLDER}:{path}" if path else START_FOLDER
        return {**given, VARIABLE: self.text(), "PYTHONPATH": with_ours}


def recording_session(args: argparse.Namespace) -> Session:
    """Return a session that records what the options ask for; ValueError for one that cannot be."""
    from stepscope.cli.options import record_options
    from stepscope.record import Keep, MemoryLimit
    from stepscope.record.recorder import Recorder
    from stepscope.record.session import Session
    from stepscope.record.source import make_sources

    limit = args.memory_limit and MemoryLimit(args.memory_limit, Keep(args.keep))
    if (last := getattr(args, "last", None)) is not None:
        limit = last.limit(limit)
    return Session(Recorder(make_sources(record_options(args), limit), limit))
