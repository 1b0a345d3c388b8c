"""All comparisons, one after the other, as one table: ``make bench``.

Those with Paddle run in its own environment (``make bench-paddle``), those on a CUDA device where
there is one (``make bench-gpu``).
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from common import Row

GROUPS = {
    "torch": ("op_cost", "options", "ranges", "results", "export_chrome", "read_trace"),
    "paddle": ("paddle_op_cost", "paddle_summary", "paddle_files"),
    "cuda": ("cuda",),
    "report": ("report",),
}


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


def as_text(rows: list[Row]) -> Table:
    """Return the table for a terminal."""
    table = Table(title=machine(), title_justify="left", box=None, pad_edge=False)
    for heading in ("what", "Stepscope", "beside", "ratio", "bar", ""):
        table.add_column(heading, overflow="fold")
    for row in rows:
        verdict = {True: "holds", False: "MISSED", None: ""}[row.holds]
        table.add_row(row.what, row.ours, row.peer, row.ratio, row.bar, verdict)
    return table


def as_markdown(rows: list[Row]) -> str:
    """Return the table for the README."""
    lines = ["| what | Stepscope | beside | ratio | bar |", "|---|---|---|---|---|"]
    lines += [f"| {r.what} | {r.ours} | {r.peer} | {r.ratio} | {r.bar} |" for r in rows]
    return "\n".join([f"Measured on {machine()}.", "", *lines])


def main() -> int:
    """Run the chosen comparisons; exit with 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    modules = [name for group in GROUPS.values() for name in group]
    parser.add_argument("only", nargs="*", choices=[*modules, []], help="run these only")
    parser.add_argument("--group", choices=GROUPS, default="torch", help="beside whom")
    parser.add_argument("--markdown", action="store_true", help="print the README's table")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.only or GROUPS[options.group]:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(name).rows()
    if options.markdown:
        print(as_markdown(rows))
    else:
        Console(width=160).print(as_text(rows))
    return int(any(row.holds is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
