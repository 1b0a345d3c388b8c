"""Arithmetic on devices: the share of tensor cores, and the FLOP/s that operators achieved.

Operations come from the shapes that operators were called with (see flops); an operator without
recorded shapes or without a formula counts none. They are divided by the summed time of the
kernels, copies and fills under the operator, not by the time of its call on the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.device.launches import launches
from stepscope.analysis.device.tensor_cores import TensorCores, uses_tensor_cores
from stepscope.analysis.device.work import DeviceWork, WorkKind, device_work
from stepscope.analysis.flops.count import flops_of, flops_per_second
from stepscope.analysis.sums import summed
from stepscope.analysis.table import Table
from stepscope.analysis.tree import call_tree
from stepscope.trace.model import Float64, Int64, Trace


@dataclass(frozen=True, slots=True)
class TensorCoreTime(Table):
    """One row per device: the summed time of its compute kernels by use of tensor cores."""

    device: tuple[str, ...]
    yes_ns: Int64
    no_ns: Int64
    unknown_ns: Int64


@dataclass(frozen=True, slots=True)
class OperatorFlops(Table):
    """One row per operator whose operations are counted and that worked on a device, by time."""

    operator: tuple[str, ...]
    calls: Int64
    flops: Int64
    device_ns: Int64  # the summed work of those calls

    @property
    def flops_per_second(self) -> Float64:
        return flops_per_second(self.flops, self.device_ns)


def tensor_core_time(trace: Trace, work: DeviceWork | None = None) -> TensorCoreTime:
    """Return how long compute kernels ran that use tensor cores, do not, or do not tell."""
    work = work or device_work(trace)
    is_compute = work.kind == WorkKind.COMPUTE
    names = trace.slices.name[work.rows[is_compute]]
    ids, which = np.unique(names, return_inverse=True)
    answer = np.array(
        [list(TensorCores).index(uses_tensor_cores(trace.strings[int(i)])) for i in ids], np.int64
    )
    group = work.device[is_compute] * len(TensorCores) + answer[which]
    groups = len(work.devices) * len(TensorCores)
    times = summed(group, work.duration_ns[is_compute], groups).reshape(-1, len(TensorCores))
    return TensorCoreTime(work.devices, *times.T)


def operator_flops(trace: Trace) -> OperatorFlops:
    """Return the operations and the device time of the operators for which both are known."""
    tree = call_tree(trace)
    found = launches(tree)
    flops = tree.of(flops_of(trace))
    if found is None or tree.is_device is None:
        calls = np.zeros(0, np.int64)
        device_ns = np.zeros(len(tree), np.int64)
    else:
        device_ns = found.device_ns
        calls = np.flatnonzero((flops > 0) & (device_ns > 0) & ~tree.is_device)
    ids, group = np.unique(tree.of(trace.slices.name)[calls], return_inverse=True)
    spent_ns = summed(group, device_ns[calls], len(ids))
    order = np.argsort(-spent_ns, kind="stable")
    return OperatorFlops(
        operator=tuple(trace.strings[int(i)] for i in ids[order]),
        calls=np.bincount(group, minlength=len(ids))[order],
        flops=summed(group, flops[calls], len(ids))[order],
        device_ns=spent_ns[order],
    )


def device_model(trace: Trace, device: str) -> str:
    """Return what a device is, such as ``NVIDIA H100 80GB HBM3``; "" when the trace does not say.

    ROCm numbers devices otherwise in events than in their description: where all that are
    described are of one model, that is it.
    """
    models = {str(each.id): each.name for each in trace.devices() if each.name}
    only = next(iter(models.values())) if len(set(models.values())) == 1 else ""
    return models.get(device, only)
