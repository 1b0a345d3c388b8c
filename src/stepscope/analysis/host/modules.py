"""What each module of a model costs: time of both passes, memory, operations, parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Columns, Table
from stepscope.analysis.base.tree import call_tree, span_mask
from stepscope.analysis.calls.launches import launches, origin_calls
from stepscope.analysis.calls.module_calls import ModuleGroups, module_calls, module_of_slices
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.host.counted import own_within
from stepscope.analysis.memory.usage import memory_of_slices
from stepscope.registry import Registry
from stepscope.trace.kinds import WORK_KINDS
from stepscope.trace.model import NO_SLICE, Int64, SliceFlags, SliceKind, Trace

if TYPE_CHECKING:
    import pandas

__all__ = ["NOTEBOOK", "ModuleTable", "module_of_slices", "module_table"]


@dataclass(frozen=True, slots=True)
class ModuleTable(Table):
    """One row per module, in the order of first calls. ``self`` excludes the modules called in it.

    The row without a model holds all that belongs to no module: with it, the columns ``operators``
    and ``self_*`` add up to the whole trace.
    """

    model: tuple[str, ...]  # the class of the outermost module that was called, "" if none
    name: tuple[str, ...]  # the qualified name in it; the model itself by its class
    class_name: tuple[
        str, ...
    ]  # "" for modules that were never called themselves, such as a ModuleList
    depth: Int64  # 0 for a model, 1 for its direct children
    calls: Int64
    operators: Int64  # operators in the module, not in the modules that it calls
    forward_ns: Int64
    backward_ns: Int64
    self_forward_ns: Int64
    self_backward_ns: Int64
    device_ns: Int64  # of the device work that it launched
    self_device_ns: Int64
    memory_bytes: Int64  # allocated less freed, on the CPU
    self_memory_bytes: Int64
    device_memory_bytes: Int64
    self_device_memory_bytes: Int64
    flops: Int64
    self_flops: Int64
    parameters: Int64  # its own and those of all modules below; 0 when the trace does not say
    own_parameters: Int64

    @property
    def total_ns(self) -> Int64:
        """Return the time of both passes, with the modules called in it."""
        return self.forward_ns + self.backward_ns

    @property
    def self_ns(self) -> Int64:
        """Return the time of both passes, without the modules called in it."""
        return self.self_forward_ns + self.self_backward_ns

    def _repr_html_(self) -> str:
        return "".join(show(self) for show in NOTEBOOK)

    def to_columns(self) -> Columns:
        """Return the columns by name, with the times of both passes."""
        columns = Table.to_columns(self)
        return {**columns, "total_ns": self.total_ns, "self_ns": self.self_ns}

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
    device = groups.sums(_device_ns(trace) * counts)
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
    )
    return table if (on_host & (calls.owner < 0)).any() else table.take(np.arange(len(table) - 1))


def _device_ns(trace: Trace) -> Int64:
    """Return the device time that each slice of the host launched itself.

    That slice is the runtime call, which is in the module even where no operator is around it, as
    when a graph is replayed whose capture was not seen; without one in the trace, the operator that
    the work names.
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
    return summed(host[work], trace.slices.duration_ns[work], len(trace.slices))


# Functions that render the table for a notebook; the report adds one.
NOTEBOOK: Registry[Callable[[ModuleTable], str]] = Registry()
