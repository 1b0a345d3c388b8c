"""The parts of a step, and the part that a slice says it is."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import distinct_ids, is_named
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import STATED_PART
from stepscope.trace.model import Bool, SliceKind, Trace
from stepscope.trace.names import OPTIMIZER_STEP

Int8 = NDArray[np.int8]
NO_PART = -1


class Part(IntEnum):
    DATA_LOADING = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    COMMUNICATION = 4
    COPIES = 5
    IDLE = 6
    OTHER = 7

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


PART_OF_WORD = {
    "Forward": Part.FORWARD,
    "Backward": Part.BACKWARD,
    "Optimization": Part.OPTIMIZER,
    "Dataloader": Part.DATA_LOADING,
    "Communication": Part.COMMUNICATION,
}
# Ranges that PyTorch itself opens, by how their names begin.
_PART_OF_PREFIX = {
    OPTIMIZER_STEP: Part.OPTIMIZER,
    "enumerate(DataLoader)#": Part.DATA_LOADING,
}


@shared
def stated_parts(trace: Trace) -> Int8:
    """Return the Part that every slice says it is, or NO_PART.

    The arguments of a range outrank its name, and its name outranks its category.
    """
    slices, strings = trace.slices, trace.strings
    parts: Int8 = np.full(len(slices), NO_PART, np.int8)
    parts[slices.kind == SliceKind.MODULE] = Part.FORWARD
    for category in distinct_ids(slices.category):
        if (part := PART_OF_WORD.get(strings[int(category)])) is not None:
            parts[slices.category == category] = part
    # Early versions of Kineto wrote these ranges as operators.
    may_be = (slices.kind == SliceKind.RANGE) | (slices.kind == SliceKind.OPERATOR)
    for prefix, part in _PART_OF_PREFIX.items():
        parts[is_named(trace, partial(_starts_with, prefix)) & may_be] = part
    for word, rows in stated_words(trace):
        parts[rows] = PART_OF_WORD.get(word, NO_PART)
    return parts


def stated_words(trace: Trace) -> Iterator[tuple[str, Bool]]:
    """Yield each word that arguments state, and a mask of the slices that state it."""
    rest, strings = trace.slices.args.rest, trace.strings
    for fragment in strings.ids_with(f'"{STATED_PART}"') if len(rest) else ():
        word = pairs_of(strings[int(fragment)]).get(STATED_PART)
        if isinstance(word, str):
            yield word, rest == fragment


def _starts_with(prefix: str, name: str) -> bool:
    return name.startswith(prefix)
