"""All comparisons, one after the other, as one table: ``make bench``.

Those with Paddle run in its own environment (``make bench-paddle``), those on a CUDA device where
there is one (``make bench-gpu``). A figure in brackets is the 95 % interval (see ``estimate``): a
bar holds when the whole interval does, is missed when none of it does, else nothing is decided.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import sys
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rows import Row, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUPS = {
    "torch": (
        *("op_cost", "options", "ranges", "results", "export_chrome", "read_trace"),
        "export_perfetto",
        "open_trace",
        "equal_times",
    ),
    "paddle": ("paddle_op_cost", "paddle_step_cost", "paddle_summary", "paddle_files"),
    "cuda": ("cuda",),
    "report": ("report", "report_command"),
    "job": ("job",),
    "default": ("default_run",),
    "sampler": ("sampler",),
}
HEADINGS = ("what", "Stepscope", "beside", "ratio (95 %)", "bar", "verdict")


def machine() -> str:
    """Describe where the figures come from."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    frameworks = [
        f", {name} {getattr(sys.modules[name], '__version__', '')}"
        for name in ("torch", "paddle")
        if name in sys.modules
    ]
    return (
        f"{today}, {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}{''.join(frameworks)}{device()}"
    )


def device() -> str:
    """Name the CUDA device, if there is one."""
    torch = sys.modules.get("torch")
    return f", {torch.cuda.get_device_name()}" if torch and torch.cuda.is_available() else ""


def load() -> str:
    """Return how many programs wanted a core in the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def cells(row: Row) -> tuple[str, ...]:
    """Return what the table shows of a row."""
    return (row.what, row.ours, row.peer, row.ratio, row.bar, row.verdict)


def as_text(rows: Iterable[Row], title: str) -> Table:
    """Return the table for a terminal."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*cells(row))
    return table


def as_markdown(rows: Iterable[Row], title: str) -> str:
    """Return the table for the README."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *map(cells, rows)]
    return "\n".join([f"Measured on {title}.", "", *(f"| {' | '.join(line)} |" for line in lines)])


def again(first: list[Row], second: list[Row]) -> Table:
    """Return how much the intervals of two runs have in common."""
    table = Table(title="two runs", title_justify="left", box=None, pad_edge=False)
    for heading in ("what", "first", "second", "share of the narrower interval in both"):
        table.add_column(heading, overflow="fold")
    for one, other in zip(first, second, strict=True):
        if one.judged and other.judged:
            overlap = f"{one.judged.overlap(other.judged):.0%}"
            shown = (one.ratio or one.ours, other.ratio or other.ours)
            table.add_row(one.what, *shown, overlap)
    return table


def measured(names: Iterable[str], quick: bool) -> list[Row]:
    """Run the comparisons."""
    rows: list[Row] = []
    for name in names:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(name).rows(quick)
    return rows


def main() -> int:
    """Run the chosen comparisons; exit with 1 unless every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    modules = [name for group in GROUPS.values() for name in group]
    parser.add_argument("--group", choices=GROUPS, default="torch", help="beside whom")
    parser.add_argument(
        "--only", action="append", choices=modules, metavar="NAME", help="one of the comparisons"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller: wide intervals")
    parser.add_argument("--twice", action="store_true", help="and how far two runs agree")
    parser.add_argument("--markdown", action="store_true", help="print the README's table")
    options = parser.parse_args()
    names = options.only or GROUPS[options.group]
    busy = f"load {load()} before"
    print(f"{busy}; a load of 0 is best", file=sys.stderr)
    rows = measured(names, options.quick)
    title = f"{machine()}, {busy} and {load()} after{' (quick)' if options.quick else ''}"
    console = Console(width=190)
    if options.markdown:
        print(as_markdown(rows, title))
    else:
        console.print(as_text(rows, title))
    if options.twice:
        console.print(again(rows, measured(names, options.quick)))
    counts = Counter(row.verdict for row in rows if row.verdict is not Verdict.NO_BAR)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), file=sys.stderr)
    return int(set(counts) != {Verdict.HOLDS})


if __name__ == "__main__":
    sys.exit(main())
