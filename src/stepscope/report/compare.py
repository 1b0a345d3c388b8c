"""A comparison for a notebook, and as a page of its own."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from stepscope.analysis.compare.model import signed
from stepscope.formats.files import output_file
from stepscope.report.notebook import nothing_html, table_html
from stepscope.text.diff import facts_lines, other_lines, row_note, shown_rows
from stepscope.units import duration_text

if TYPE_CHECKING:
    import os

    from stepscope.analysis.compare.model import Diff

_ROWS = 10


def diff_html(found: Diff) -> str:
    """Return the verdict and what changed most, as HTML for a notebook."""
    shown, rest = shown_rows(found.tables[0], _ROWS)
    rows = [
        (
            row.what,
            duration_text(row.before_ns),
            duration_text(row.after_ns),
            signed(row.difference_ns),
            row_note(row),
        )
        for row in shown
    ]
    if rest:
        others = sum(row.difference_ns for row in rest)
        rows.append((f"{len(rest):,} other rows", "", "", signed(others), ""))
    rows.append(
        (
            "all",
            duration_text(found.before_ns),
            duration_text(found.after_ns),
            signed(found.difference_ns),
            "",
        )
    )
    told = [*facts_lines(found), *other_lines(found)]
    heading = f"what changed in a {found.unit}"
    table = table_html((heading, "before", "after", "difference", ""), rows)
    return nothing_html(found.verdict) + table + "".join(nothing_html(line) for line in told)


def export_diff_html(found: Diff, path: str | os.PathLike[str]) -> None:
    """Write a comparison as one HTML file that needs no network."""
    with output_file(path) as sink:
        title = html.escape(found.verdict)
        sink.write(f"<!doctype html><meta charset=utf-8><title>{title}</title>".encode())
        sink.write(diff_html(found).encode("utf-8", "replace"))
