"""The steps of a loop, marked by the user or recognised, and those that show its steady state.

The first of these that a trace has makes the steps:

- ``ProfilerStep#`` ranges that the program marked;
- the marks that inference servers (vLLM, SGLang, TensorRT-LLM) put around a step of theirs: each
  begins a step, so that scheduling between two of them counts;
- the optimizer: each of its calls ends a step. Two optimizers that take turns (a GAN) end one
  step together, and what follows the last one belongs to no step;
- calls of the outermost module (inference, ``generate``): each begins a step;
- batches drawn from a data loader: each begins a step;
- requests of a server; these may overlap.

Several threads of a process may have steps, which overlap then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import has_text, is_named, outermost
from stepscope.analysis.calls.backward import backward_functions, process_of_tracks
from stepscope.analysis.calls.launches import launched_work
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.steps.parts import host_parts
from stepscope.analysis.steps.phases import import_rows, without_compilation
from stepscope.trace.keys import MODEL_ID
from stepscope.trace.kinds import step_number
from stepscope.trace.model import Bool, Int32, Int64, SliceKind, Trace
from stepscope.trace.names import OPTIMIZER_STEP, PADDLE_OPTIMIZER, REQUEST_CATEGORY

_ENGINE_STEP = re.compile(
    r"^execute_(\d+_)?(context|new)_\d+.*_(generation|cached)_\d+"  # vLLM
    r"|^step\[(DECODE|EXTEND|MIXED|\w+ bs=)"  # SGLang
    r"|^\[Executor\] _forward_step \d+"  # TensorRT-LLM
)

MIN_CALLS = 3  # fewer calls of a module, batches or requests are no loop
MIN_LAUNCHED = 0.5  # steps stand for the run if they launch this share of all device time
# Optimizers that take turns: a critic's five updates and a generator's one are six.
LONGEST_TURN = 8
STEADY_FACTOR = 1.5  # the program warms up while its first steps take this many times the usual one
MOST_WARM_UP = 0.2  # share of the steps that may count as warming up
COMPILING_SHARE = 0.1  # a step that spends more of its time compiling is not a usual one


class StepsBy(Enum):
    """How the steps were recognised."""

    MARKS = "as marked"
    ENGINE = "as marked by the server"
    OPTIMIZER = "each ended by the optimizer"
    MODULE = "one per call of the model"
    LOADER = "one per data-loader batch"
    REQUEST = "one per request"
    NOTHING = "none recognised"


@dataclass(frozen=True, slots=True)
class Steps:
    """One row per step, in time order."""

    number: Int32
    start_ns: Int64
    duration_ns: Int64
    track: Int64  # of the thread that they ran on
    by: StepsBy = StepsBy.NOTHING
    name: str = ""  # of the optimizer, module or loader

    def __len__(self) -> int:
        return len(self.number)

    @property
    def end_ns(self) -> Int64:
        return self.start_ns + self.duration_ns

    @property
    def unit(self) -> str:
        return "request" if self.by is StepsBy.REQUEST else "step"


@shared
def step_table(trace: Trace) -> Steps:
    """Return the steps; the module's docstring says which."""
    for find in (_marked, _by_engine, _by_optimizer, _by_module, _by_loader, _by_request):
        steps = find(trace)
        if steps is not None and len(steps):
            return steps
    nothing = np.zeros(0, np.int64)
    return Steps(nothing.astype(np.int32), nothing, nothing, nothing)


@shared
def steady_steps(trace: Trace) -> Bool:
    """Return a mask of the steps that show how the program runs once it has started.

    The first ones, which warm up, do not, and neither do those that compile; where nothing
    would be left, all but the first do.
    """
    steps = step_table(trace)
    count = len(steps)
    steady = np.ones(count, np.bool_)
    if count < 2:
        return steady
    if steps.by is not StepsBy.MARKS:
        steady[0] = False  # when it began is not known, or it was the first to touch anything
    own_ns = without_compilation(trace, steps.start_ns, steps.duration_ns)
    steady &= steps.duration_ns - own_ns <= COMPILING_SHARE * steps.duration_ns
    if steady.any():
        usual_ns = float(np.median(own_ns[steady]))
        slow = own_ns > STEADY_FACTOR * usual_ns
        first = int(np.argmin(slow)) if not slow.all() else 0
        if first <= max(1, MOST_WARM_UP * count):
            steady[:first] = False
    if not steady.any():
        steady[1:] = True
    return steady


def _marked(trace: Trace) -> Steps | None:
    slices = trace.slices
    rows = np.flatnonzero(slices.kind == SliceKind.STEP)
    numbers = [step_number(trace.name_of(int(row))) for row in rows]
    is_named = np.array([number is not None for number in numbers], np.bool_)
    rows = rows[is_named]  # foreign traces may use this kind for anything
    return Steps(
        np.array([number for number in numbers if number is not None], np.int32),
        slices.start_ns[rows],
        slices.duration_ns[rows],
        slices.track[rows].astype(np.int64),
        StepsBy.MARKS,
    )


def _by_engine(trace: Trace) -> Steps | None:
    """Begin a step with each mark of a server's engine, on the thread with most marks."""
    slices = trace.slices
    rows = outermost(trace, _host_rows(trace, _ENGINE_STEP.search))
    if len(rows) < MIN_CALLS:
        return None
    rows = rows[slices.track[rows] == _commonest(slices.track[rows])]
    starts = slices.start_ns[rows]
    ends = np.concatenate([starts[1:], slices.ends_of(rows[-1:])])
    return _numbered(trace, rows, starts, ends, StepsBy.ENGINE)


def _by_optimizer(trace: Trace) -> Steps | None:
    """End a step at each optimizer's call; what follows a thread's last belongs to no step."""
    slices = trace.slices
    calls = outermost(trace, _host_rows(trace, _is_optimizer))
    if not len(calls):
        return None
    first_start = min(trace.info.start_ns, int(slices.start_ns[0]))
    main = _commonest(slices.track[calls])
    ends_step, starts = [], []
    for track in _threads_beside(trace, calls, main):
        rows = calls[slices.track[calls] == track]
        rows = rows[np.argsort(slices.ends_of(rows), kind="stable")]
        rows = rows[_last_of_turns(trace, rows)]
        of_thread = slices.start_ns[slices.track == track]
        begin = first_start if track == main else int(of_thread[0])
        begin = _end_of_imports(trace, begin, int(slices.start_ns[rows[0]]))
        ends_step.append(rows)
        starts.append(np.concatenate([[begin], slices.ends_of(rows[:-1])]))
    rows, start_ns = np.concatenate(ends_step), np.concatenate(starts)
    return _numbered(trace, rows, start_ns, slices.ends_of(rows), StepsBy.OPTIMIZER)


def _threads_beside(trace: Trace, rows: Int64, main: int) -> list[int]:
    """Return a thread, and those of its process that have enough of the rows for steps."""
    process = process_of_tracks(trace)
    tracks, count = np.unique(trace.slices.track[rows], return_counts=True)
    enough = (count >= MIN_CALLS) & (process[tracks] == process[main])
    return [int(track) for track in np.union1d(tracks[enough], [main])]


def _end_of_imports(trace: Trace, begin_ns: int, end_ns: int) -> int:
    """Return when the imports before a time have ended: the first step begins after them.

    What is imported after the model's first call is part of that step.
    """
    slices = trace.slices
    is_use = (slices.kind == SliceKind.MODULE) | (host_parts(trace) == Part.BACKWARD)
    first_use = slices.start_ns[is_use][:1]
    ends = slices.ends_of(import_rows(trace))
    before = ends[ends <= first_use.min(initial=end_ns)]
    return int(before.max(initial=begin_ns))


def _is_optimizer(name: str) -> bool:
    return name.startswith(OPTIMIZER_STEP) or name == PADDLE_OPTIMIZER


def _last_of_turns(trace: Trace, rows: Int64) -> Bool:
    """Return a mask of the optimizers' calls that end a step: the last of those that take turns.

    A call is told from others by its name and by how many slices it holds, which depends on the
    optimizer and on its parameters; else by the backward pass before it, which is that of another
    model. What else is done now and then (checkpoints, logs, validation) makes no other optimizer.
    Where there is no such order, the busiest optimizer counts.
    """
    slices = trace.slices
    track = int(slices.track[rows[0]])
    starts = slices.start_ns[slices.track == track]
    ends = slices.ends_of(rows)
    slice_count = np.searchsorted(starts, ends) - np.searchsorted(starts, slices.start_ns[rows])
    backward = backward_functions(trace)
    passes = slices.start_ns[backward] if backward.any() else starts
    before = np.diff(np.searchsorted(passes, ends), prepend=0)
    name = slices.name[rows].astype(np.int64)
    for signature in (name << 32 | slice_count, name << 32 | before):
        turn = _period(signature[1:])
        if turn > 1:
            ends_step = np.zeros(len(rows), np.bool_)
            ends_step[_phase(trace, rows, turn) :: turn] = True
            return ends_step
    busiest: Bool = slices.name[rows] == _commonest(slices.name[rows])
    return busiest


def _period(values: Int64) -> int:
    """Return the period of the values; 1 if they are all equal or never repeat."""
    if len(values) < 2 * MIN_CALLS or _repeats(values, 1):
        return 1
    turns = (turn for turn in range(2, LONGEST_TURN + 1) if len(values) >= MIN_CALLS * turn)
    return next((turn for turn in turns if _repeats(values, turn)), 1)


def _repeats(values: Int64, turn: int) -> bool:
    return bool((values[turn:] == values[:-turn]).mean() > 0.9)


def _phase(trace: Trace, rows: Int64, turn: int) -> int:
    """Return the first call that ends a turn, the one before the longest pause."""
    slices = trace.slices
    apart_ns = slices.start_ns[rows[1:]] - slices.ends_of(rows[:-1])
    usual = [float(np.median(apart_ns[i::turn])) for i in range(turn)]
    # A batch is loaded between two steps; without that, the program's first call begins one.
    loaded = _loader_rows(trace)
    if len(loaded) >= len(rows) // turn - 1 > 0:
        at = np.searchsorted(slices.start_ns[loaded], slices.ends_of(rows))
        drawn = np.diff(at)
        return int(np.argmax([drawn[i::turn].sum() for i in range(turn)]))
    return turn - 1 if max(usual) < 2 * min(usual) + 1 else int(np.argmax(usual))


def _by_module(trace: Trace) -> Steps | None:
    """Begin a step with each call of the outermost module with most of the time."""
    slices = trace.slices
    rows = outermost(trace, np.flatnonzero(slices.kind == SliceKind.MODULE))
    steps = _begun_by(trace, rows, StepsBy.MODULE)
    return steps if steps is not None and _launch_most(trace, steps) else None


def _launch_most(trace: Trace, steps: Steps) -> bool:
    """Tell whether the steps launch most device work; a model may only have warmed up.

    A CUDA graph that was captured then is replayed outside of any module.
    """
    work, call = launched_work(trace)
    if not len(work):
        return True
    slices = trace.slices
    begin, end = int(steps.start_ns[0]), int(steps.end_ns[-1])
    inside = (slices.start_ns[call] >= begin) & (slices.start_ns[call] < end)
    busy_ns = slices.duration_ns[work]
    return int(busy_ns[inside].sum()) >= MIN_LAUNCHED * int(busy_ns.sum())


def _by_loader(trace: Trace) -> Steps | None:
    return _begun_by(trace, _loader_rows(trace), StepsBy.LOADER)


def _by_request(trace: Trace) -> Steps | None:
    slices = trace.slices
    rows = np.flatnonzero(has_text(slices.category, trace.strings, REQUEST_CATEGORY.__eq__))
    if len(rows) < MIN_CALLS:
        return None
    return _numbered(trace, rows, slices.start_ns[rows], slices.ends_of(rows), StepsBy.REQUEST)


def _loader_rows(trace: Trace) -> Int64:
    return outermost(trace, np.flatnonzero(host_parts(trace) == Part.DATA_LOADING))


def _begun_by(trace: Trace, rows: Int64, by: StepsBy) -> Steps | None:
    """Begin a step with each slice of one name; a thread's last ends with its own slice.

    Of several models of one class, such as an encoder and a decoder, the busiest of each thread
    counts. Threads of one process have steps of their own.
    """
    slices = trace.slices
    groups = _Groups(trace, rows)
    if not groups.often.any():
        groups = _Groups(trace, rows, by_model=False)
    if not groups.often.any():
        return None
    busiest = int(groups.total_ns.argmax())
    main, name = int(groups.track[busiest]), groups.name[busiest]
    chosen = []
    for track in _threads_beside(trace, rows[slices.name[rows] == name], main):
        of_thread = np.where((groups.track == track) & (groups.name == name), groups.total_ns, -1)
        if of_thread.max() >= 0:
            chosen.append(rows[groups.which == of_thread.argmax()])
    ends = [np.append(slices.start_ns[mine[1:]], slices.ends_of(mine[-1:])) for mine in chosen]
    rows = np.concatenate(chosen)
    return _numbered(trace, rows, slices.start_ns[rows], np.concatenate(ends), by)


class _Groups:
    """Slices by thread, name and, where that is known, model: how long each group took."""

    def __init__(self, trace: Trace, rows: Int64, *, by_model: bool = True) -> None:
        slices = trace.slices
        model = slices.args.dense(MODEL_ID, len(slices), 1)[rows] if by_model else rows * 0
        keys = np.stack([slices.track[rows], slices.name[rows], model]).astype(np.int64)
        (self.track, self.name, _), which = np.unique(keys, axis=1, return_inverse=True)
        self.which: Int64 = which.reshape(-1)
        self.often: Bool = np.bincount(self.which, minlength=len(self.track)) >= MIN_CALLS
        total_ns = np.bincount(self.which, slices.duration_ns[rows], len(self.track))
        self.total_ns = np.where(self.often, total_ns, -1)


def _numbered(trace: Trace, rows: Int64, starts: Int64, ends: Int64, by: StepsBy) -> Steps:
    order = np.argsort(starts, kind="stable")
    return Steps(
        np.arange(len(rows), dtype=np.int32),
        starts[order].astype(np.int64),
        (ends - starts)[order].astype(np.int64),
        trace.slices.track[rows[order]].astype(np.int64),
        by,
        trace.name_of(int(rows[0])),
    )


def _host_rows(trace: Trace, wanted: Callable[[str], object]) -> Int64:
    return np.flatnonzero(is_named(trace, wanted) & ~trace.slices.on_device)


def _commonest(values: NDArray[np.integer]) -> int:
    distinct, count = np.unique(values, return_counts=True)
    return int(distinct[count.argmax()])
