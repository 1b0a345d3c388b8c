"""The SQL tables: readable columns, ids spelled out, times in ns and sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import polars as pl

from stepscope.analysis.calls.stated_parts import Part
from stepscope.query import frames
from stepscope.registry import Registry
from stepscope.trace.model import Trace


@dataclass(frozen=True, slots=True)
class View:
    """A table for queries; each column has a few words, with its unit."""

    name: str
    meaning: str
    columns: Mapping[str, str]
    frame: Callable[[Trace, Collection[str] | None], pl.DataFrame]  # with the columns that a
    # query names, None for all; those of a table that is made quickly may be more


VIEWS: Registry[View] = Registry()

_WHERE_IT_RAN = {
    "pid": "the process, as the recording tool numbered it",
    "tid": "the thread, or the stream's track",
    "process": "the process's name",
    "thread": "the thread's name",
}
_WHEN = {
    "start_ns": "ns; when it started, on the trace's clock",
    "duration_ns": "ns; how long it took, with all inside it",
}


_STEP_OF = {"step": "the number of the step it started in; null outside of steps"}
_STACK = {
    "frame": "the innermost Python frame: `train.py(12): step`",
    "stack": "all frames, the innermost first, with ` < ` between them",
}
_INSIDE = {
    "inside": "the innermost slice then running on that thread; null if none",
    "module": "the module that it belongs to; null if none",
}

VIEWS.register(
    View(
        "slices",
        "Everything that has a start and a duration: operators, kernels, ranges, modules, ...",
        {
            "id": "its number in the trace; what `parent` refers to",
            "name": "what ran",
            "kind": "operator, range, step, python, runtime, kernel, memcpy, memset, sync, "
            "device_range, module or other",
            "category": "what the recording tool calls it",
            "overload": "the operator's overload",
            **_WHEN,
            "self_ns": "ns; its duration less that of the slices directly inside it",
            **_WHERE_IT_RAN,
            **_STEP_OF,
            "parent": "the id of the innermost slice around it on its track; null if none",
            "depth": "how many slices are around it",
            "sequence": "ties a backward function to its forward operator",
            "forward_thread": "the tool's number of the forward operator's thread",
            "correlation": "ties device work to the call that launched it",
            "unfinished": "whether the recording ended before it did",
            "async": "whether its thread did other things meanwhile",
            "backward": "whether it belongs to the backward pass",
        },
        frames.slices,
    )
)
VIEWS.register(
    View(
        "ops",
        "Operators of PyTorch and Paddle.",
        {
            "id": "its number in `slices`",
            "name": "the operator",
            "overload": "its overload",
            "module": "the module that it belongs to, also in the backward pass; null if none",
            "shapes": "of its inputs, where they were recorded",
            "types": "of its inputs, where they were recorded",
            **_WHEN,
            "self_ns": "ns; without the operators inside it",
            "device_ns": "ns; of the device work that it launched itself",
            "flops": "floating-point operations by formula; 0 where shapes are not known",
            **_STEP_OF,
            "backward": "whether it belongs to the backward pass",
            **_WHERE_IT_RAN,
        },
        frames.ops,
    )
)
VIEWS.register(
    View(
        "kernels",
        "Device work: kernels, copies, fills.",
        {
            "id": "its number in `slices`",
            "name": "the kernel, or the kind of copy",
            "kind": "compute, communication, copy or fill",
            "device": "the device, as the trace numbers it",
            "stream": "the stream",
            **_WHEN,
            "launched_ns": "ns; when the host launched it; null where that is not known",
            "operator": "the operator or range that launched it; null where that is not known",
            "module": "the module of that operator; null if none",
            **_STEP_OF,
            "correlation": "ties it to the call that launched it",
        },
        frames.kernels,
    )
)
VIEWS.register(
    View(
        "steps",
        "The steps of training or inference, and where their time went.",
        {
            "step": "its number",
            **_WHEN,
            "is_whole": "false where its beginning is not known",
            "is_steady": "false for those that warm up or compile",
            "found_by": "what the steps were recognised by: marks, optimizer, module, loader, "
            "request",
            "on_device": "whether the parts are what devices did; else what the thread did",
            **{
                f"{part.name.lower()}_ns": f"ns; {part.name.lower().replace('_', ' ')}"
                for part in Part
            },
            "waiting_for_core_ns": "ns; how long its thread was ready to run and had no core",
        },
        frames.steps,
    )
)
VIEWS.register(
    View(
        "modules",
        "Modules of the model, in the order of first calls; `self` is without those inside.",
        {
            "model": "the class of the outermost module; empty for all that belongs to none",
            "name": "the qualified name in the model",
            "class_name": "its class",
            "depth": "0 for a model, 1 for its direct children",
            "calls": "how often it was called",
            "operators": "how many ran in it, not in the modules called in it",
            "forward_ns": "ns; in the forward pass",
            "backward_ns": "ns; in the backward pass",
            "self_forward_ns": "ns",
            "self_backward_ns": "ns",
            "device_ns": "ns; of the device work that it launched",
            "self_device_ns": "ns",
            "memory_bytes": "bytes; allocated less freed, on the CPU",
            "self_memory_bytes": "bytes",
            "device_memory_bytes": "bytes; allocated less freed, on devices",
            "self_device_memory_bytes": "bytes",
            "flops": "floating-point operations",
            "self_flops": "floating-point operations",
            "parameters": "how many parameters it has, with all below it",
            "own_parameters": "how many it has itself",
            "total_ns": "ns; both passes",
            "self_ns": "ns; both passes, without the modules called in it",
        },
        frames.modules,
    )
)
VIEWS.register(
    View(
        "memory",
        "Allocations and releases of memory.",
        {
            "time_ns": "ns; when it was, on the trace's clock",
            "address": "the pointer",
            "size": "bytes; negative when it is given back",
            "device": "cpu, cuda:0, ...",
            **_WHERE_IT_RAN,
            "slice": "the id of the innermost slice then running on that thread; null if none",
            "allocated": "bytes; in use on the device after it",
            "reserved": "bytes; held by the allocator after it",
            **_STACK,
            **_INSIDE,
            "step": "the number of that slice's step; null if none",
        },
        frames.memory,
    )
)
VIEWS.register(
    View(
        "samples",
        "What the Python threads were doing, looked at every ms or so.",
        {
            "time_ns": "ns; when it was taken, on the trace's clock",
            "duration_ns": "ns; how much time it stands for",
            **_WHERE_IT_RAN,
            "state": "python, native, gil (waiting for it), blocked or ready",
            "wait": "what a blocked thread waited for",
            **_STACK,
            "inside": _INSIDE["inside"],
            "step": "the number of that slice's step; null if none",
        },
        frames.samples,
    )
)
VIEWS.register(
    View(
        "findings",
        "The problems that Stepscope found, the most expensive first.",
        {
            "place": "1 for the first",
            "problem": "the kind of problem, a stable word",
            "title": "one line",
            "severity": "high, medium or low",
            "share": "of the time or memory that it concerns, 0 to 1",
            "saves_ns": "ns; how much shorter a step would be without it; 0: not known",
            "file": "the guilty file; null if none",
            "line": "the guilty line; null if none",
            "text": "a sentence or two with the numbers",
            "fix": "what to do",
        },
        frames.findings,
    )
)
VIEWS.register(
    View(
        "ranks",
        "One row per trace: which process it is of, and its totals.",
        {
            "rank": "of the job; null if none",
            "world_size": "how many ranks the job has; null if none",
            "host": "the machine",
            "pid": "the process",
            "producer": "the tool that recorded",
            "start_ns": "ns; of the recording, on the trace's clock",
            "end_ns": "ns; of the recording",
            "wall_offset_ns": "ns; what makes these times Unix time",
            "events": "how many slices",
            "lost_events": "how many were dropped",
            "steps": "how many steps",
            "step_ns": "ns; median of the steady steps; null if none",
            "device_busy_ns": "ns; in which any device worked",
        },
        frames.ranks,
    )
)


def markdown() -> str:
    parts = []
    for view in VIEWS:
        rows = [f"| `{column}` | {meaning} |" for column, meaning in view.columns.items()]
        head = [f"### {view.name}", "", view.meaning, "", "| column | meaning |", "|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)
