"""Where a step goes: parts that exclude each other and add up to the step, to the ns.

A step is the time between its begin and end on its thread of the host (see steps). What counts is:

in a program without device work, what that thread is in at each moment
    The part of its innermost slice that has one (see host_parts); where no slice has one,
    ``backward`` while another thread of the process is in the backward pass, ``communication``
    while one communicates (gloo's threads), else ``other``: Python's own code and waiting, which
    cannot be told apart. There are no ``copies`` (copies
    within host memory belong to the part that makes them), and nothing is ``idle``.

in a program with device work, what its devices do at each moment
    While a kernel computes or a fill runs: the part of the operator that launched it,
    ``backward`` before ``optimizer`` before ``forward`` before ``data loading`` where several run;
    ``other`` where the launch is not in the trace or has no part.
    Else ``communication`` while a communicating kernel runs: it is exposed.
    Else ``copies`` while memory is copied: these are exposed, too.
    Else the devices are idle: ``data loading`` while the step's thread loads data, else ``idle``.
    A device works behind the host: what a step launched may count in the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.intervals import Intervals, union
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.table import Columns, Table
from stepscope.analysis.calls.backward import process_of_tracks
from stepscope.analysis.calls.stated_parts import Int8, Part
from stepscope.analysis.steps.parts import host_parts, thread_moments
from stepscope.analysis.steps.phases import import_rows
from stepscope.analysis.steps.steps import StepsBy, step_table
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceKind, Trace

# Where kernels of several parts run at once, the first of these has the moment.
_KERNEL_ORDER = (Part.BACKWARD, Part.OPTIMIZER, Part.FORWARD, Part.DATA_LOADING, Part.OTHER)


@dataclass(frozen=True, slots=True)
class StepBreakdown(Table):
    """One row per step, in time order."""

    step: Int64
    start_ns: Int64
    duration_ns: Int64
    is_whole: Bool  # False: its start is unknown, so it includes everything before it
    on_device: Bool  # whether the parts are what devices did; else what the host thread did
    parts_ns: Int64  # a row per step, a column per Part; each row adds up to duration_ns

    def to_columns(self) -> Columns:
        """Return the columns by name, a column per Part: ``data_loading_ns``, ..."""
        names = ("step", "start_ns", "duration_ns", "is_whole", "on_device")
        columns: Columns = {name: getattr(self, name) for name in names}
        return columns | {f"{part.name.lower()}_ns": self.parts_ns[:, part] for part in Part}

    @property
    def mean_ns(self) -> dict[Part, float]:
        """Return the average step by part: over the complete steps, or all if none is complete."""
        counted = self.is_whole if self.is_whole.any() else np.ones(len(self), np.bool_)
        if not counted.any():
            return dict.fromkeys(Part, 0.0)
        return {part: float(self.parts_ns[counted, part].mean()) for part in Part}


@shared
def step_breakdown(
    trace: Trace, work: DeviceWork | None = None, parts: Int8 | None = None
) -> StepBreakdown:
    """Return the parts of every step; the module's docstring defines them.

    ``parts`` are those of host_parts, where they are known already.
    """
    steps = step_table(trace)
    parts_ns = np.zeros((len(steps), len(Part)), np.int64)
    on_device = np.zeros(len(steps), np.bool_)
    if len(steps):
        work = work or device_work(trace)
        parts = host_parts(trace) if parts is None else parts
        tracks = steps.track
        process = process_of_tracks(trace)
        for track in np.unique(tracks):
            mine = np.flatnonzero(tracks == track)
            window = steps.start_ns[mine], steps.start_ns[mine] + steps.duration_ns[mine]
            of_process = _work_of(work, process, int(process[track]))
            on_device[mine] = bool(_runs_in(work, of_process, window).any())
            if on_device[mine[0]]:
                parts_ns[mine] = _device_parts(work, of_process, parts, int(track), window)
            else:
                parts_ns[mine] = _thread_parts(trace, parts, process, int(track), window)
    is_whole = np.ones(len(steps), np.bool_)
    is_whole[:1] = steps.by is not StepsBy.OPTIMIZER
    number = steps.number.astype(np.int64)
    return StepBreakdown(number, steps.start_ns, steps.duration_ns, is_whole, on_device, parts_ns)


def device_parts(trace: Trace, start_ns: Int64, end_ns: Int64) -> Int64:
    """Return how long the devices spent in each Part within some intervals.

    Only the devices of the process whose steps the trace has are counted.
    """
    track = int(step_table(trace).track[0])
    process = process_of_tracks(trace)
    work = device_work(trace)
    mine = _work_of(work, process, int(process[track]))
    return _device_parts(work, mine, host_parts(trace), track, (start_ns, end_ns))


def run_parts(trace: Trace, since_ns: int | None = None) -> tuple[Int64, bool]:
    """Return the parts of the whole recording as one step, and whether they are the devices'.

    Its thread is the one with the most time in slices; imports are left out, and what was before
    ``since_ns``.
    """
    slices = trace.slices
    on_host = ~slices.on_device
    if not on_host.any():
        return np.zeros(len(Part), np.int64), False
    is_work = on_host & (
        slices.kind != SliceKind.OTHER
    )  # Kineto has a span for the recording itself
    on_host = is_work if is_work.any() else on_host
    busy_ns = np.bincount(slices.track[on_host], slices.self_ns[on_host], len(trace.tracks))
    track = int(busy_ns.argmax())
    process = process_of_tracks(trace)
    start_ns = min(trace.info.start_ns or int(slices.start_ns[0]), int(slices.start_ns[0]))
    start_ns = start_ns if since_ns is None else max(start_ns, since_ns)
    window = np.array([start_ns]), np.array([max(int(slices.end_ns.max()), trace.info.end_ns)])
    work, parts = device_work(trace), host_parts(trace)
    of_process = _work_of(work, process, int(process[track]))
    on_device = bool(_runs_in(work, of_process, window).any())
    if on_device:
        return _device_parts(work, of_process, parts, track, window)[0], True
    parts_ns = _thread_parts(trace, parts, process, track, window)[0]
    rows = import_rows(trace)
    imports = union(slices.start_ns[rows], slices.ends_of(rows))
    parts_ns[Part.OTHER] -= min(imports.total_ns, int(parts_ns[Part.OTHER]))
    return parts_ns, False


def _work_of(work: DeviceWork, process: Int64, number: int) -> Bool:
    """Return a mask of the work that a process launched; work of unknown origin counts for all."""
    of_call = process[work.trace.slices.track[work.call]] if len(work) else work.device
    mine: Bool = (work.call == NO_SLICE) | (of_call == number)
    return mine


def _runs_in(work: DeviceWork, which: Bool, window: tuple[Int64, Int64]) -> Int64:
    return work.busy(which).covered(*window)


def _device_parts(
    work: DeviceWork, which: Bool, parts: Int8, track: int, window: tuple[Int64, Int64]
) -> Int64:
    """Give each moment to the first claim on it, unclaimed ones to IDLE."""
    part_of = _launched_part(work, parts)
    computes = which & np.isin(work.kind, (WorkKind.COMPUTE, WorkKind.FILL))
    claims = [(part, work.busy(computes & (part_of == part))) for part in _KERNEL_ORDER]
    for part, kind in (
        (Part.COMMUNICATION, WorkKind.COMMUNICATION),
        (Part.COPIES, WorkKind.COPY),
    ):
        claims.append((part, work.busy(which & (work.kind == kind))))
    loading = thread_moments(work.trace, parts, track).time_in(Part.DATA_LOADING)
    claims.append((Part.DATA_LOADING, loading))
    return _claimed(claims, window, Part.IDLE)


def _launched_part(work: DeviceWork, parts: Int8) -> Int8:
    host = np.where(work.call == NO_SLICE, work.operator[work.rows], work.call)
    launched: Int8 = np.where(host == NO_SLICE, Part.OTHER, parts[host]).astype(np.int8)
    # A kernel of a collective's operator that does not communicate itself, such as a cast before.
    launched[launched == Part.COMMUNICATION] = Part.OTHER
    return launched


def _thread_parts(
    trace: Trace, parts: Int8, process: Int64, track: int, window: tuple[Int64, Int64]
) -> Int64:
    moments = thread_moments(trace, parts, track)
    own_parts = (part for part in Part if part is not Part.OTHER)
    claims = [(part, moments.time_in(part)) for part in own_parts]
    slices = trace.slices
    beside = (process[slices.track] == process[track]) & (slices.track != track)
    for part in (Part.BACKWARD, Part.COMMUNICATION):
        rows = np.flatnonzero(beside & (parts == part))
        claims.append((part, union(slices.start_ns[rows], slices.ends_of(rows))))
    return _claimed(claims, window, Part.OTHER)


def _claimed(
    claims: Sequence[tuple[Part, Intervals]], window: tuple[Int64, Int64], rest: Part
) -> Int64:
    """Return the time of each claim without that of earlier ones, and the rest, per interval."""
    start_ns, end_ns = window
    parts_ns = np.zeros((len(start_ns), len(Part)), np.int64)
    taken = union(start_ns[:0], end_ns[:0])
    before_ns = np.zeros(len(start_ns), np.int64)
    for part, claim in claims:
        taken = union(
            np.concatenate([taken.start_ns, claim.start_ns]),
            np.concatenate([taken.end_ns, claim.end_ns]),
        )
        now_ns = taken.covered(start_ns, end_ns)
        parts_ns[:, part] += now_ns - before_ns
        before_ns = now_ns
    parts_ns[:, rest] += end_ns - start_ns - before_ns
    return parts_ns
