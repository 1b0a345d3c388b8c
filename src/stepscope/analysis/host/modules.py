"""What each module of a model costs: time of both passes, memory, operations, parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.base.tree import call_tree, span_mask
from stepscope.analysis.calls.launches import launches, origin_calls
from stepscope.analysis.calls.module_calls import ModuleGroups, module_calls, module_of_slices
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.host.counted import own_within
from stepscope.analysis.memory.usage import memory_of_slices
from stepscope.registry import Registry
from stepscope.trace.kinds import WORK_KINDS
from stepscope.trace.measures import (
    Shown,
    Sums,
    measure,
    measured,
    states,
)
from stepscope.trace.model import NO_SLICE, Int64, SliceFlags, SliceKind, Trace
from stepscope.trace.table import added_columns
from stepscope.units import BYTES, COUNT, SCALED, TEXT, TIME

if TYPE_CHECKING:
    import pandas

__all__ = ["NOTEBOOK", "ModuleTable", "module_of_slices", "module_table"]


@dataclass(frozen=True, slots=True)
class ModuleTable(Table):
    """One row per module, in the order of first calls. ``self`` excludes the modules called in it.

    The row without a model holds all that belongs to no module: with it, the columns ``operators``
    and ``self_*`` add up to the whole trace.
    """

    model: tuple[str, ...] = measure(
        "Model", TEXT, "the class of the outermost module; empty for what is in none",
        shown=Shown.DATA,
    )  # fmt: skip
    name: tuple[str, ...] = measure(
        "Qualified name", TEXT, "the name in the model; of a model, its class", shown=Shown.PAGES
    )
    class_name: tuple[str, ...] = measure(
        "Class", TEXT, "its class; empty if it was never called itself", shown=Shown.PAGES
    )
    depth: Int64 = measure("Depth", COUNT, "0 for a model, 1 for its parts", shown=Shown.DATA)
    calls: Int64 = measure("Calls", COUNT, "how often it was called")
    operators: Int64 = measure("Operators", COUNT, "in it, not in the modules called in it")
    forward_ns: Int64 = measure("Forward", TIME, "in the forward pass")
    backward_ns: Int64 = measure("Backward", TIME, "in the backward pass")
    self_forward_ns: Int64 = measure("Self forward", TIME, shown=Shown.DATA)
    self_backward_ns: Int64 = measure("Self backward", TIME, shown=Shown.DATA)
    device_ns: Int64 = measure("Device", TIME, "of the device work that it launched")
    self_device_ns: Int64 = measure("Self device", TIME)
    memory_bytes: Int64 = measure("Memory", BYTES, "allocated less freed, on the CPU")
    self_memory_bytes: Int64 = measure("Self memory", BYTES)
    device_memory_bytes: Int64 = measure("Device memory", BYTES, "allocated less freed, on devices")
    self_device_memory_bytes: Int64 = measure("Self device memory", BYTES, shown=Shown.PAGES)
    flops: Int64 = measure("FLOPs", SCALED, "floating-point operations, by the input shapes")
    self_flops: Int64 = measure("Self FLOPs", SCALED, shown=Shown.DATA)
    parameters: Int64 = measure("Parameters", SCALED, "with all below it; 0: not known")
    own_parameters: Int64 = measure("Own parameters", SCALED, shown=Shown.DATA)
    added: Mapping[str, Int64] = added_columns()

    @property
    @states("Total", TIME, "both passes, with the modules called in it", after="calls")
    def total_ns(self) -> Int64:
        return self.forward_ns + self.backward_ns

    @property
    @states("Self", TIME, "both passes, without the modules called in it", after="calls")
    def self_ns(self) -> Int64:
        return self.self_forward_ns + self.self_backward_ns

    def _repr_html_(self) -> str:
        return "".join(show(self) for show in NOTEBOOK)

    def to_dicts(self) -> list[dict[str, Any]]:
        columns = self.to_columns()
        values = [np.asarray(column, object).tolist() for column in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame (needs pandas and pyarrow)."""
        return self.to_polars().to_pandas()


def module_table(
    trace: Trace, depth: int | None = None, within: Intervals | None = None
) -> ModuleTable:
    """Sum a trace by module; those deeper than ``depth`` count for their ancestor there.

    Depth 0 leaves whole models, depth 1 their direct children. A trace of torch.profiler that was
    recorded with_stack has its modules as Python frames; they are named by the path of calls.
    ``within`` counts only the time in some intervals, such as the steady steps, and what started
    there; the rows stay the same.
    """
    if depth is not None and depth < 0:
        raise ValueError(f"depth {depth} is negative; give 0 for whole models, None for all levels")
    calls = module_calls(trace)
    groups = ModuleGroups.of(calls, depth)
    slices = trace.slices
    on_host = ~slices.on_device
    spans = span_mask(trace)
    if spans is not None:
        on_host &= ~spans
    own_ns, counts = slices.self_ns, np.ones(len(slices), np.int64)
    if within is not None:
        ends_ns, parent = slices.end_ns, slices.parent
        own_ns = own_within(slices.start_ns, ends_ns, parent, own_ns, within)
        counts = within.contain(slices.start_ns).astype(np.int64)
    time_ns = np.where(on_host & (slices.flags & SliceFlags.ASYNC == 0), own_ns, 0)
    forward = groups.sums(np.where(calls.is_backward, 0, time_ns))
    backward = groups.sums(np.where(calls.is_backward, time_ns, 0))
    memory = memory_of_slices(trace)
    on_cpu = groups.sums(memory.cpu_self * counts)
    on_device = groups.sums(memory.device_self * counts)
    flops = groups.sums(flops_of(trace) * counts)
    device = groups.sums(launched(trace, slices.duration_ns) * counts)
    added: dict[str, Int64] = {}
    for of, values in measured(slices):
        if of.sums is Sums.ADDED:
            sums = groups.sums((values * on_host + launched(trace, values)) * counts)
            added |= {f"self_{of.name}": sums.own, of.name: sums.total}
    called = np.zeros(len(slices), np.int64)
    called[calls.rows] = counts[calls.rows]
    table = ModuleTable(
        model=(*groups.model, ""),
        name=(*groups.name, ""),
        class_name=(*groups.class_name, ""),
        depth=groups.depth,
        calls=groups.calls if within is None else groups.sums(called).own,
        operators=groups.sums((slices.kind == SliceKind.OPERATOR) * counts).own,
        forward_ns=forward.total,
        backward_ns=backward.total,
        self_forward_ns=forward.own,
        self_backward_ns=backward.own,
        device_ns=device.total,
        self_device_ns=device.own,
        memory_bytes=on_cpu.total,
        self_memory_bytes=on_cpu.own,
        device_memory_bytes=on_device.total,
        self_device_memory_bytes=on_device.own,
        flops=flops.total,
        self_flops=flops.own,
        parameters=groups.parameters,
        own_parameters=groups.own_parameters,
        added=added,
    )
    return table if (on_host & (calls.owner < 0)).any() else table.take(np.arange(len(table) - 1))


def launched(trace: Trace, values: Int64) -> Int64:
    """Return for each runtime call the sum of ``values`` over the device work that it launched.

    A runtime call lies in a module even where no operator is around it, as when a graph is replayed
    whose capture was not seen. Where the trace has no such call, the operator that the work names
    stands for it.
    """
    tree = call_tree(trace)
    launched = launches(tree)
    if launched is None:
        return np.zeros(len(trace.slices), np.int64)
    rows = np.arange(len(tree)) if tree.rows is None else tree.rows
    host = np.full(len(trace.slices), NO_SLICE, np.int64)
    host[rows[launched.work]] = rows[launched.host]
    work = np.flatnonzero(np.isin(trace.slices.kind, WORK_KINDS))
    call = origin_calls(trace, work)
    host[work] = np.where(call == NO_SLICE, host[work], call)
    work = work[host[work] != NO_SLICE]
    return summed(host[work], values[work], len(trace.slices))


# Functions that render the table for a notebook; the report adds one.
NOTEBOOK: Registry[Callable[[ModuleTable], str]] = Registry()
