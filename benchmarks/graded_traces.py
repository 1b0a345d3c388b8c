"""Asks about GPU traces whose problem is known: is the first finding right? ``make bench-traces``.

The traces are made (``planted/``: one problem each), and real ones of a folder where one
is named. ``graded_traces.toml`` says what an expert finds in each. Exits with 1 under the bar.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planted import make_all
from rich.console import Console
from rich.table import Table

from stepscope.analysis.findings import Severity, find_problems
from stepscope.formats.base.registry import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.analysis.findings import Finding

MIN_RIGHT = 0.90
NONE = "none"
EXPECTED = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Expected:
    """What an expert says of a trace."""

    name: str
    first: tuple[str, ...]
    high: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Grade:
    """What Stepscope says of it."""

    expected: Expected
    findings: tuple[Finding, ...]

    @property
    def first(self) -> str:
        """Return the first finding that is worth a look."""
        worth = [item for item in self.findings if item.severity is not Severity.LOW]
        low = [item.id for item in self.findings if item.id in self.expected.first]
        return worth[0].id if worth else low[0] if self.findings[:1] and low else NONE

    @property
    def is_right(self) -> bool:
        """Tell whether the first finding is the expert's."""
        return self.first in self.expected.first

    @property
    def wrong_high(self) -> tuple[str, ...]:
        """Return the findings that are high and should not be there."""
        may = (*self.expected.first, *self.expected.high)
        high = (item.id for item in self.findings if item.severity is Severity.HIGH)
        return tuple(item for item in high if item not in may)


def expectations() -> dict[str, Expected]:
    """Return what is expected, by the begin of the file's name."""
    with EXPECTED.open("rb") as file:
        document = tomllib.load(file)
    return {
        name: Expected(name, tuple(item["first"]), tuple(item.get("high", ())), item["why"])
        for name, item in document.items()
    }


def graded(paths: Iterable[Path]) -> list[Grade]:
    """Return what is said of the traces that something is expected of."""
    result = expectations()
    collected = []
    for path in paths:
        fitting = [name for name in result if path.name.startswith((f"{name}_", f"{name}."))]
        if fitting:
            expected = result[max(fitting, key=len)]
            collected.append(Grade(expected, tuple(find_problems(read_trace(path)))))
    return collected


def show(grades: list[Grade]) -> bool:
    """Print the table, and return whether the bars are kept."""
    table = Table("trace", "expected", "first", "right", "wrong high", "share", "why")
    for entry in grades:
        share = f"{entry.findings[0].share:.0%}" if entry.findings else ""
        right = "yes" if entry.is_right else "[red]no[/]"
        table.add_row(
            entry.expected.name,
            " or ".join(entry.expected.first),
            entry.first,
            right,
            ", ".join(entry.wrong_high),
            share,
            entry.expected.why,
        )
    console = Console(width=190 if not sys.stdout.isatty() else None)
    console.print(table)
    right = sum(grade.is_right for grade in grades)
    wrong = [item.expected.name for item in grades if item.wrong_high]
    console.print(
        f"{right} of {len(grades)} first findings are right ({right / max(len(grades), 1):.0%}, "
        f"bar {MIN_RIGHT:.0%}); wrong high findings in {len(wrong)} (bar 0)"
    )
    return right >= MIN_RIGHT * len(grades) and not wrong


def main() -> int:
    """Grade all traces."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--real", type=Path, help="folder with the real traces")
    parser.add_argument("--only", default="", help="traces whose name has this in it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = sorted(make_all(Path(folder)))
        if arguments.real:
            paths = sorted(arguments.real.rglob("*.json*")) + paths
        grades = graded(path for path in paths if arguments.only in path.name)
    return 0 if show(grades) else 1


if __name__ == "__main__":
    sys.exit(main())
