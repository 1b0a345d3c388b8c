"""The part of a step that each slice belongs to, and that a thread is in at each moment.

The innermost slice with a part of its own decides, and everything inside it inherits that part:

``data loading``   ranges of a data loader (``enumerate(DataLoader)``, Paddle's)
``optimizer``      ``Optimizer.step#``, ``Optimizer.zero_grad#``, Paddle's Optimization
``backward``       functions of the autograd engine, typed Backward ranges
``communication``  collectives of c10d and its backends: gloo, NCCL, MPI
``other``          compilations
``forward``        calls of modules, Forward ranges and plain operators, where nothing around them
                   says otherwise: a forward that is recomputed in the backward pass is backward
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stepscope import _native
from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import nearest
from stepscope.analysis.base.tree import distinct_ids, is_named
from stepscope.analysis.calls.backward import backward_functions
from stepscope.analysis.calls.stated_parts import NO_PART, Int8, Part, stated_parts
from stepscope.analysis.steps.phases import compile_marks
from stepscope.trace.model import (
    DEVICE_KINDS,
    NO_PARENT,
    Bool,
    Int64,
    SliceFlags,
    SliceKind,
    Trace,
)
from stepscope.trace.names import BACKENDS, ENGINE, MODULE_PREFIX

# Python takes a few µs to tens of µs between two operators; a longer gap is something else.
GLUE_NS = 100_000

_KNOWN_NAMES = 1 << 14  # the ranks of a job run the same operators
_BACKWARD_NAME = re.compile(r"^[A-Z]\w*Backward\d*$|^torch::autograd::")  # of early Kinetos
_ZERO_GRAD = "Optimizer.zero_grad#"
_COLLECTIVE = re.compile(rf"^(c10d|{BACKENDS})[:_]|record_param_comms|^_c10d_functional")


@dataclass(frozen=True, slots=True)
class Moments:
    """The parts that a thread is in, one row per interval, in order."""

    part: Int8
    start_ns: Int64
    end_ns: Int64

    def time_in(self, part: Part) -> Intervals:
        mine = self.part == part
        return union(self.start_ns[mine], self.end_ns[mine])


@shared
def host_parts(trace: Trace) -> Int8:
    """Return the Part of every slice of the host; what runs on devices is OTHER."""
    slices = trace.slices
    stated = stated_parts(trace)
    own_part, is_forward = _own_parts(trace, stated), _forward_slices(trace, stated)
    own_part[_in_closures(trace, own_part, is_forward)] = Part.FORWARD
    part = _native.handed_down(slices.parent, own_part.astype(np.int32))
    forward = np.where(is_forward, np.int32(Part.FORWARD), np.int32(NO_PART))
    part = np.where(part == NO_PART, _native.handed_down(slices.parent, forward), part)
    part[part == NO_PART] = Part.OTHER
    return part.astype(np.int8)


@shared
def thread_moments(trace: Trace, parts: Int8, track: int) -> Moments:
    """Return the parts that a thread is in, from its first slice to its last.

    Python's time between two slices of one part belongs to that part, up to GLUE_NS; also in an
    optimizer's closure.
    """
    slices = trace.slices
    ended_here = slices.flags & SliceFlags.ASYNC == 0
    rows = np.flatnonzero((slices.track == track) & ended_here & (slices.duration_ns > 0))
    columns = _native.part_moments(
        slices.start_ns, slices.duration_ns, slices.parent, slices.depth, parts, rows, Part.OTHER
    )
    return _without_glue(Moments(*columns))


def _own_parts(trace: Trace, stated: Int8) -> Int8:
    slices, strings = trace.slices, trace.strings
    # Tables by id, not np.isin: names are few, slices are many.
    of_name = np.full(len(strings), NO_PART, np.int8)
    present = distinct_ids(slices.name)
    of_name[present] = [_part_of_name(text) for text in strings.texts_of(present.tolist())]
    own_part: Int8 = of_name[slices.name]
    unnamed = (own_part == NO_PART) & (stated != Part.FORWARD)
    own_part = np.where(unnamed, stated, own_part)
    is_backward = is_named(trace, _BACKWARD_NAME.search)
    own_part[is_backward & (slices.kind == SliceKind.OPERATOR)] = Part.BACKWARD
    own_part[backward_functions(trace)] = Part.BACKWARD
    own_part[compile_marks(trace)] = Part.OTHER
    on_device = np.zeros(max(SliceKind) + 1, np.bool_)
    on_device[list(DEVICE_KINDS)] = True
    own_part[on_device[slices.kind]] = Part.OTHER
    return own_part


@lru_cache(_KNOWN_NAMES)
def _part_of_name(name: str) -> int:
    if name.startswith(_ZERO_GRAD):
        return Part.OPTIMIZER
    if name.startswith(ENGINE):
        return Part.BACKWARD
    return Part.COMMUNICATION if _COLLECTIVE.search(name) else NO_PART


def _in_closures(trace: Trace, own_part: Int8, is_forward: Bool) -> Int64:
    """Return what an optimizer's step runs before the last backward pass within it, but not in one.

    It was given a function to call: Lightning runs a whole training step in there.
    """
    slices = trace.slices
    optimizer = nearest(slices.parent, own_part == Part.OPTIMIZER)
    backward = np.flatnonzero((own_part == Part.BACKWARD) & (optimizer != NO_PARENT))
    last_ns = np.full(len(slices) + 1, -1, np.int64)  # the last for no optimizer
    np.maximum.at(last_ns, optimizer[backward], slices.ends_of(backward))
    before = slices.start_ns < last_ns[optimizer]
    inherited = _native.handed_down(slices.parent, own_part.astype(np.int32))
    belongs = is_forward & (own_part == NO_PART) & (inherited == Part.OPTIMIZER)
    return np.flatnonzero(belongs & before)


def _forward_slices(trace: Trace, stated: Int8) -> Bool:
    """Return a mask of slices that are forward unless something around them says otherwise."""
    slices = trace.slices
    is_forward = is_named(trace, lambda name: name.startswith(MODULE_PREFIX))
    is_forward &= slices.kind == SliceKind.PYTHON
    is_forward |= (slices.kind == SliceKind.OPERATOR) | (slices.kind == SliceKind.MODULE)
    is_forward |= stated == Part.FORWARD
    return is_forward


def _runs(part: Int8, start_ns: Int64, end_ns: Int64) -> Moments:
    """Join neighbours of one part, and drop empty intervals."""
    not_empty = end_ns > start_ns
    part, start_ns, end_ns = part[not_empty], start_ns[not_empty], end_ns[not_empty]
    if not len(part):
        return Moments(part, start_ns, end_ns)
    first = np.concatenate([[True], part[1:] != part[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Moments(part[first], start_ns[first], end_ns[last])


def _without_glue(moments: Moments) -> Moments:
    part = moments.part.copy()
    between = np.flatnonzero(np.isin(part[1:-1], (Part.OTHER, Part.OPTIMIZER))) + 1
    short = moments.end_ns[between] - moments.start_ns[between] <= GLUE_NS
    glue = between[short & (part[between - 1] == part[between + 1])]
    part[glue] = part[glue - 1]
    return _runs(part, moments.start_ns, moments.end_ns)
