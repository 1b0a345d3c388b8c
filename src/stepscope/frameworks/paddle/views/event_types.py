"""Paddle's event type for each slice, in traces of any framework."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import inside
from stepscope.analysis.base.tree import distinct_ids, ids_where
from stepscope.analysis.calls.stated_parts import PART_OF_WORD, stated_parts, stated_words
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.trace.model import Bool, SliceKind, Trace, UInt8

# An operator within another one is OperatorInner; see event_types.
_TYPE_OF_KIND = {
    SliceKind.OTHER: TracerEventType.UserDefined,
    SliceKind.OPERATOR: TracerEventType.Operator,
    SliceKind.RANGE: TracerEventType.PythonUserDefined,
    SliceKind.STEP: TracerEventType.ProfileStep,
    SliceKind.PYTHON: TracerEventType.PythonOp,
    SliceKind.RUNTIME: TracerEventType.CudaRuntime,
    SliceKind.KERNEL: TracerEventType.Kernel,
    SliceKind.MEMCPY: TracerEventType.Memcpy,
    SliceKind.MEMSET: TracerEventType.Memset,
    SliceKind.SYNC: TracerEventType.CudaRuntime,
    SliceKind.DEVICE_RANGE: TracerEventType.UserDefined,
    SliceKind.MODULE: TracerEventType.Forward,
}


@shared
def event_types(trace: Trace) -> UInt8:
    """Return the TracerEventType of every slice.

    Paddle's own events, and ranges that say their type, are what they say. Of the rest, the kind
    decides: an operator within an operator is an OperatorInner, as Paddle has it.
    """
    slices, strings = trace.slices, trace.strings
    of_kind = np.zeros(max(SliceKind) + 1, np.uint8)
    for kind, event_type in _TYPE_OF_KIND.items():
        of_kind[kind] = event_type
    types: UInt8 = of_kind[slices.kind]
    is_operator = slices.kind == SliceKind.OPERATOR
    types[is_operator & _within_operator(trace)] = TracerEventType.OperatorInner
    for category in distinct_ids(slices.category):
        word = strings[int(category)]
        rows = slices.category == category
        if word in TracerEventType.__members__ and not _is_torchs(trace, word, rows):
            types[rows] = TracerEventType[word]
    parts = stated_parts(trace)
    for word, part in PART_OF_WORD.items():
        types[parts == part] = TracerEventType[word]
    for word, rows in stated_words(trace):
        if word in TracerEventType.__members__:
            types[rows] = TracerEventType[word]
    return types


def _is_torchs(trace: Trace, word: str, rows: Bool) -> bool:
    """Tell whether a word is Kineto's, which once wrote "Operator" also for nested operators."""
    if word != TracerEventType.Operator.name:
        return False
    prefixes = landmarks().operator_prefixes
    names = trace.slices.name[rows]
    return len(ids_where(names, trace.strings, lambda name: name.startswith(prefixes))) > 0


def _within_operator(trace: Trace) -> Bool:
    """Return a mask of the slices inside an operator, at any depth."""
    slices = trace.slices
    return inside(slices.parent, slices.kind == SliceKind.OPERATOR)
