"""Cuts texts that readers would refuse, before a trace is stored, so that it can be reopened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.trace.schema import Captured
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args

# A name is never this long. Texts are stored, searched and shown as a whole.
LONGEST_TEXT_BYTES = 64 << 20
_KEPT_BYTES = 1 << 20


def with_short_texts(captured: Captured, longest: int = LONGEST_TEXT_BYTES) -> Captured:
    """Return the tables with long names cut and long arguments dropped."""
    strings = captured.strings
    lengths = np.diff(strings.offsets)
    long = np.flatnonzero(lengths > longest)
    if not len(long):
        return captured
    fragments = _fragments(captured)
    texts = list(strings)
    for row in long.tolist():
        size = f"{int(lengths[row]):,} bytes"
        is_fragment = row in fragments
        cut = f"{texts[row][:_KEPT_BYTES]}... ({size})"
        texts[row] = f'"left out": "{size}"' if is_fragment else cut
    return replace(captured, strings=Strings.of(texts))


def _fragments(captured: Captured) -> set[int]:
    """Return the ids of the texts that are arguments."""
    tables = captured.tables().values()
    columns = [getattr(table, name) for table in tables for name in table.columns()]
    return {
        int(i) for column in columns if isinstance(column, Args) for i in np.unique(column.rest)
    }
