"""The part of a step that each slice belongs to, and that a thread is in at each moment.

The innermost slice with a part of its own decides, and everything inside it inherits that part:

``data loading``   ranges of a data loader (``enumerate(DataLoader)``, Paddle's)
``optimizer``      ``Optimizer.step#``, ``Optimizer.zero_grad#``, Paddle's Optimization
``backward``       functions of the autograd engine, typed Backward ranges
``communication``  collectives of c10d and its backends: gloo, NCCL, MPI
``other``          compilations
``forward``        calls of modules, Forward ranges and plain operators, where nothing around them
                   says otherwise: a forward that is recomputed in the backward pass is
                   backward, and what makes a batch or clips gradients is ``other``
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stepscope import _native
from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import inside, nearest
from stepscope.analysis.base.tree import distinct_ids, is_named
from stepscope.analysis.calls.backward import backward_functions, in_graph, process_of_tracks
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
    own_part, is_forward = _own_parts(trace)
    beside = beside_the_model(trace)
    own_part[_in_closures(trace, own_part, is_forward)] = Part.FORWARD
    own_part[beside] = Part.OTHER
    is_forward &= ~beside
    part = _native.handed_down(slices.parent, own_part.astype(np.int32))
    forward = np.where(is_forward, np.int32(Part.FORWARD), np.int32(NO_PART))
    part = np.where(part == NO_PART, _native.handed_down(slices.parent, forward), part)
    part[part == NO_PART] = Part.OTHER
    return part.astype(np.int8)


@shared
def beside_the_model(trace: Trace) -> Bool:
    """Return a mask of the operators of a training that run outside of the model and its loss.

    Those are the ones of a thread between a backward pass and the next part of the model whose
    gradient is computed: they make a batch, clip gradients, update weights by hand.
    """
    slices, stated = trace.slices, stated_parts(trace)
    beside = np.zeros(len(slices), np.bool_)
    own_part, is_forward = _own_parts(trace)
    part = _native.handed_down(slices.parent, own_part.astype(np.int32))
    part[_in_closures(trace, own_part, is_forward)] = NO_PART
    is_backward, graph = part == Part.BACKWARD, in_graph(trace)
    is_operator = (slices.kind == SliceKind.OPERATOR) & (part == NO_PART)
    calls = stated == Part.FORWARD
    model = ((is_operator | calls) & graph if graph.any() else calls) & ~is_backward
    if not is_backward.any() or not model.any():
        return beside
    may_be = is_operator & ~graph & ~inside(slices.parent, calls)
    process = process_of_tracks(trace)
    for track in np.unique(slices.track[model]).tolist():
        rows = np.flatnonzero(may_be & (slices.track == track))
        begins = slices.start_ns[model & (slices.track == track)]
        passes = slices.start_ns[is_backward & (process[slices.track] == process[track])]
        time_ns = slices.start_ns[rows]
        beside[rows] = _last_before(time_ns, begins) <= _last_before(time_ns, passes)
    return beside


def _last_before(time_ns: Int64, of: Int64) -> Int64:
    """Return the latest of some times before each given one, -1 if there is none."""
    ordered = np.append(np.int64(-1), np.sort(of))
    before: Int64 = ordered[np.searchsorted(ordered, time_ns, side="right") - 1]
    return before


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


def _own_parts(trace: Trace) -> tuple[Int8, Bool]:
    """Return the parts that slices have by themselves, and which are forward if nothing else."""
    slices, strings, stated = trace.slices, trace.strings, stated_parts(trace)
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
    return own_part, _forward_slices(trace, stated)


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
    same = (part[between - 1] == part[between + 1]) & (part[between - 1] != Part.OTHER)
    glue = between[short & same]
    part[glue] = part[glue - 1]
    return _runs(part, moments.start_ns, moments.end_ns)
