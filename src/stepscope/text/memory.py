"""The memory in use at a device's peak, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.analysis.memory.peak import Holder, PeakMemory
from stepscope.text.layout import Column, printable, text_lines
from stepscope.units import percent_text, size_text

_NAME_WIDTH = 60


def peak_text(peak: PeakMemory, row_limit: int) -> str:
    """Return a memory peak: what it is for, who allocated it, and what would lower it."""
    return "\n".join(_lines(peak, row_limit))


def _lines(peak: PeakMemory, row_limit: int) -> Iterator[str]:
    yield f"{peak.device}: {size_text(peak.bytes)} ({peak.bytes:,} bytes) in use at the peak"
    if peak.reserved:
        share = percent_text(peak.unused, peak.reserved)
        yield (
            f"  The allocator held {size_text(peak.reserved)} then, {size_text(peak.unused)} "
            f"({share}) of it unused, and {size_text(peak.most_reserved)} at most."
        )
    yield ""
    yield from _indented(
        [
            Column("for", [name for name, _ in peak.categories], is_text=True),
            Column("bytes", [size_text(size) for _, size in peak.categories]),
            Column("share", [percent_text(size, peak.bytes) for _, size in peak.categories]),
        ]
    )
    yield ""
    yield from _indented(_holders(peak, peak.holders[: row_limit if row_limit >= 0 else None]))
    if peak.savings:
        yield ""
        yield "  What would lower it, each by itself:"
        for saving in peak.savings:
            yield f"  {size_text(saving.bytes):>10}  {saving.text}"
    for line in peak.unknown:
        yield f"  {line}"


def _holders(peak: PeakMemory, rows: Sequence[Holder]) -> list[Column]:
    columns = [
        Column("asked for by", [row.operator or "not known" for row in rows], is_text=True),
        Column("bytes", [size_text(row.bytes) for row in rows]),
        Column("share", [percent_text(row.bytes, peak.bytes) for row in rows]),
        Column("blocks", [f"{row.blocks:,}" for row in rows]),
        Column("for", [row.category for row in rows], is_text=True),
    ]
    for header, texts in (
        ("module", [row.module for row in rows]),
        ("line", [row.line for row in rows]),
    ):
        if any(texts):
            columns.append(Column(header, [printable(text) for text in texts], is_text=True))
    return columns


def _indented(columns: list[Column]) -> Iterator[str]:
    yield from (f"  {line}" for line in text_lines(columns, _NAME_WIDTH))
