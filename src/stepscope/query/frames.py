"""The rows of the SQL tables: functions of a trace and the requested columns."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from stepscope.analysis.answer import answer
from stepscope.analysis.base.labels import input_dims
from stepscope.analysis.base.sums import distinct
from stepscope.analysis.calls.module_calls import module_calls
from stepscope.analysis.code.stacks import KnownStacks, stack_labels, stacks_of_samples
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.host.modules import module_table
from stepscope.analysis.steps.breakdown import step_breakdown
from stepscope.analysis.steps.cores import ready_in_steps
from stepscope.analysis.steps.steps import StepsBy, steady_steps, step_table
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.trace.fragments import pairs_of
from stepscope.trace.frames import slices_frame, table_frame, text_series
from stepscope.trace.keys import INPUT_DIMS, INPUT_TYPES
from stepscope.trace.measures import MEASURES, Sums
from stepscope.trace.model import NO_SLICE, Int64, SliceKind, Trace

WHEN = ("start_ns", "duration_ns")
WHERE_IT_RAN = ("pid", "tid", "process", "thread")
# The columns of slices and samples that other tables have, too.
OF_OPERATORS = ("name", "overload", *WHEN, "self_ns", "step", "backward", *WHERE_IT_RAN)
OF_KERNELS = ("name", *WHEN, "step", "correlation")
OF_SAMPLES = ("time_ns", "duration_ns", *WHERE_IT_RAN, "state", "wait")
# The columns of tables that are made row by row: the type and the meaning of each.
OF_FINDINGS = {
    "place": (pl.Int64, "1 for the first"),
    "problem": (pl.String, "the kind of problem, a stable word"),
    "title": (pl.String, "one line"),
    "severity": (pl.String, "high, medium or low"),
    "share": (pl.Float64, "of the time or memory that it concerns, 0 to 1"),
    "saves_ns": (pl.Int64, "ns; how much shorter a step would be without it; 0: not known"),
    "file": (pl.String, "the guilty file; null if none"),
    "line": (pl.Int64, "the guilty line; null if none"),
    "text": (pl.String, "a sentence or two with the numbers"),
    "fix": (pl.String, "what to do"),
}
OF_RANKS = {
    "rank": (pl.Int64, "of the job; null if none"),
    "world_size": (pl.Int64, "how many ranks the job has; null if none"),
    "host": (pl.String, "the machine"),
    "pid": (pl.Int64, "the process"),
    "producer": (pl.String, "the tool that recorded"),
    "start_ns": (pl.Int64, "ns; of the recording, on the trace's clock"),
    "end_ns": (pl.Int64, "ns; of the recording"),
    "wall_offset_ns": (pl.Int64, "ns; what makes these times Unix time"),
    "events": (pl.Int64, "how many slices"),
    "lost_events": (pl.Int64, "how many were dropped"),
    "steps": (pl.Int64, "how many steps"),
    "step_ns": (pl.Int64, "ns; median of the steady steps; null if none"),
    "device_busy_ns": (pl.Int64, "ns; in which any device worked"),
}


def slices(trace: Trace, wanted: Collection[str] | None) -> pl.DataFrame:
    frame = slices_frame(trace, only=wanted)
    if not frame.width:  # a query may only count
        frame = slices_frame(trace, only={"start_ns"})
    if wanted is None or "id" in wanted:
        frame = frame.with_columns(id=pl.int_range(pl.len(), dtype=pl.Int64))
    return frame


def ops(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    slices = trace.slices
    rows = np.flatnonzero(slices.kind == SliceKind.OPERATOR)
    base = slices_frame(trace, only=OF_OPERATORS)[rows]
    shapes, types = _inputs(trace, rows)
    work = device_work(trace)
    return base.with_columns(
        id=pl.Series(rows),
        module=_module_names(trace, rows),
        shapes=shapes,
        types=types,
        flops=pl.Series(flops_of(trace)[rows]),
        device_ns=pl.Series(work.launched(slices.duration_ns)[rows]),
        **{
            added.name: pl.Series(work.launched(getattr(slices, added.name))[rows])
            for added in MEASURES
            if added.sums is Sums.ADDED
        },
    )


def kernels(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    work = device_work(trace)
    rows, slices = work.rows, trace.slices
    operator = work.operator[rows] if len(rows) else rows
    launched_ns = (
        np.where(work.call == NO_SLICE, -1, slices.start_ns[work.call]) if len(rows) else rows
    )
    kinds = [kind.name.lower() for kind in WorkKind]
    measures = [added.name for added in MEASURES]
    base = slices_frame(trace, only=(*OF_KERNELS, *measures))[rows]
    module = _module_names(trace, operator)
    launches = pl.Series(launched_ns)
    return base.with_columns(
        id=pl.Series(rows),
        kind=text_series(kinds, work.kind),
        device=text_series(list(work.devices), work.device),
        stream=text_series([name for _, name in work.streams], work.stream),
        operator=_names(trace, operator),
        module=module,
        launched_ns=launches.set(launches < 0, None),
    )


def steps(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    table = step_table(trace)
    frame = step_breakdown(trace).to_polars()
    by = "none" if table.by is StepsBy.NOTHING else table.by.name.lower()
    return frame.with_columns(
        waiting_for_core_ns=pl.Series(ready_in_steps(trace).astype(np.int64)),
        is_steady=pl.Series(steady_steps(trace)),
        found_by=pl.lit(by),
    )


def modules(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    return module_table(trace).to_polars()


def memory(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    frame = table_frame(trace, trace.memory)
    around = trace.memory.slice.astype(np.int64)
    stacks = KnownStacks(trace.stacks, trace.memory.stack)
    return frame.with_columns(
        **_stack_texts(trace, stacks, len(frame)),
        inside=_names(trace, around),
        module=_module_names(trace, around),
        step=_steps_of(trace, around),
    )


def samples(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    around = trace.samples.slice.astype(np.int64)
    return table_frame(trace, trace.samples, OF_SAMPLES).with_columns(
        **_stack_texts(trace, stacks_of_samples(trace), len(trace.samples)),
        inside=_names(trace, around),
        step=_steps_of(trace, around),
    )


def findings(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    rows = [
        {
            "place": number,
            "problem": finding.id,
            "title": finding.title,
            "severity": finding.severity.value,
            "share": float(finding.share),
            "saves_ns": round(finding.saves_ns),
            "file": finding.places[0].file if finding.places else None,
            "line": finding.places[0].line if finding.places else None,
            "text": finding.text,
            "fix": finding.fix,
        }
        for number, finding in enumerate(answer(trace).findings, 1)
    ]
    return pl.DataFrame(rows, schema={name: kind for name, (kind, _) in OF_FINDINGS.items()})


def ranks(trace: Trace, _: Collection[str] | None) -> pl.DataFrame:
    info, steps = trace.info, step_table(trace)
    steady = steps.duration_ns[steady_steps(trace)]
    work = device_work(trace)
    busy = work.busy(np.ones(len(work), np.bool_)).total_ns if len(work) else 0
    row = {
        "rank": info.rank,
        "world_size": info.world_size,
        "host": info.host,
        "pid": info.pid,
        "producer": info.producer,
        "start_ns": info.start_ns,
        "end_ns": info.end_ns,
        "wall_offset_ns": info.wall_offset_ns,
        "events": len(trace),
        "lost_events": info.losses.events,
        "steps": len(steps),
        "step_ns": round(float(np.median(steady))) if len(steady) else None,
        "device_busy_ns": int(busy),
    }
    return pl.DataFrame([row], schema={name: kind for name, (kind, _) in OF_RANKS.items()})


# ---- parts of them


def _stack_texts(trace: Trace, known_stacks: KnownStacks, rows: int) -> dict[str, pl.Series]:
    stacks = stack_labels(known_stacks, rows, trace.strings)
    innermost = [path[0] if path else "" for path in stacks.texts]
    whole = [" < ".join(path) for path in stacks.texts]
    return {
        "frame": text_series(innermost, stacks.codes),
        "stack": text_series(whole, stacks.codes),
    }


def _names(trace: Trace, rows: Int64) -> pl.Series:
    ids = np.where(rows == NO_SLICE, 0, trace.slices.name[rows] if len(trace.slices) else 0)
    distinct_ids, codes = distinct(ids)
    names = text_series([trace.strings[int(i)] for i in distinct_ids], codes)
    return pl.select(pl.when(pl.Series(rows != NO_SLICE)).then(names)).to_series()


def _module_names(trace: Trace, rows: Int64) -> pl.Series:
    """Return the module that each slice belongs to, null without."""
    calls = module_calls(trace)
    if not len(calls):
        return pl.repeat(None, len(rows), dtype=pl.Categorical, eager=True)
    owner = np.append(calls.rows, NO_SLICE)[np.append(calls.owner, -1)[rows]]
    return _names(trace, owner)


def _steps_of(trace: Trace, rows: Int64) -> pl.Series:
    steps = pl.Series(np.append(trace.slices.step, -1)[rows])
    return steps.set(steps < 0, None)


def _inputs(trace: Trace, rows: Int64) -> tuple[pl.Series, pl.Series]:
    rest = trace.slices.args.rest
    if not len(rest):
        nothing = pl.repeat(None, len(rows), dtype=pl.Categorical, eager=True)
        return nothing, nothing
    distinct_ids, codes = distinct(rest[rows])
    shapes, types = [], []
    for text_id in distinct_ids:
        text = trace.strings[int(text_id)]
        has_dims = INPUT_DIMS in text
        shapes.append(str(input_dims(text)) if has_dims else "")
        types.append(str(pairs_of(text).get(INPUT_TYPES, "")) if has_dims else "")
    return text_series(shapes, codes), text_series(types, codes)
