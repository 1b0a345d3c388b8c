"""The Python stacks of a closed window, as the rows of a Trace's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import _native
from stepscope.trace.model import Stacks
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import UInt32


def with_stacks(
    strings: Strings,
    numbers: UInt32,
    stack_table: Callable[[UInt32], Any] = _native.stack_table,
) -> tuple[Strings, Stacks, UInt32]:
    """Return the strings with those of the frames, the table, and each slice's row in it.

    ``numbers`` are the recorder's: they are valid until ``_native.clear_stacks()``.
    """
    rows, parent, frame, texts = stack_table(numbers)
    # Row 0 is the empty stack, and string 0 is the empty text; the rest is put behind ours.
    frame[1:] += np.uint32(len(strings) - 1)
    return Strings.of([*strings, *texts[1:]]), Stacks(parent, frame), rows
