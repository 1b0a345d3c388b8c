"""Paddle's event type for each slice, in traces of any framework."""

from __future__ import annotations

from functools import partial

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import inside
from stepscope.analysis.base.tree import distinct_ids, ids_where, is_named
from stepscope.trace.event_types import EVENT_TYPE_KEY, TracerEventType
from stepscope.trace.fragments import pairs_of
from stepscope.trace.model import Bool, SliceKind, Trace, UInt8
from stepscope.trace.names import OPTIMIZER_STEP

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

# Ranges that PyTorch itself opens, by how their names begin.
_TYPE_OF_PREFIX = {
    OPTIMIZER_STEP: TracerEventType.Optimization,
    "enumerate(DataLoader)#": TracerEventType.Dataloader,
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
    # After the categories: early Kinetos called ranges "Operator", too, as Paddle calls operators.
    may_be = (slices.kind == SliceKind.RANGE) | is_operator
    for prefix, event_type in _TYPE_OF_PREFIX.items():
        types[is_named(trace, partial(_starts_with, prefix)) & may_be] = event_type
    return _with_stated(trace, types)


def _is_torchs(trace: Trace, word: str, rows: Bool) -> bool:
    """Tell whether a word is Kineto's, which once wrote "Operator" also for nested operators."""
    if word != TracerEventType.Operator.name:
        return False
    prefixes = landmarks().operator_prefixes
    names = trace.slices.name[rows]
    return len(ids_where(names, trace.strings, lambda name: name.startswith(prefixes))) > 0


def _starts_with(prefix: str, name: str) -> bool:
    return name.startswith(prefix)


def _within_operator(trace: Trace) -> Bool:
    """Return a mask of the slices inside an operator, at any depth."""
    slices = trace.slices
    return inside(slices.parent, slices.kind == SliceKind.OPERATOR)


def _with_stated(trace: Trace, types: UInt8) -> UInt8:
    """Give ranges the type that their arguments state."""
    rest = trace.slices.args.rest
    if not len(rest):
        return types
    for fragment in trace.strings.ids_with(f'"{EVENT_TYPE_KEY}"'):
        word = pairs_of(trace.strings[int(fragment)]).get(EVENT_TYPE_KEY)
        if isinstance(word, str) and word in TracerEventType.__members__:
            types[rest == fragment] = TracerEventType[word]
    return types
