"""Underused devices: host-bound, tiny kernels, synchronous copies, unused tensor cores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analysis.device.idle import IdleReason, waiting_calls
from stepscope.analysis.device.tensor_cores import TensorCores, uses_tensor_cores
from stepscope.analysis.device.work import WorkKind
from stepscope.analysis.findings.facts import moment
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.labels import shown_name
from stepscope.analysis.tree import ids_where
from stepscope.trace.model import NO_SLICE, SliceKind
from stepscope.units import count_text, duration_text

if TYPE_CHECKING:
    from stepscope.analysis.findings.facts import Facts
    from stepscope.trace.model import Int64

MIN_IDLE_SHARE = 0.20
"""Some idle time at the edges of steps is usual; a fifth of the device's time is worth a look."""

TINY_NS = 5_000
"""A launch takes the host about this long: shorter kernels cannot keep a device busy."""

MIN_TINY_SHARE, MIN_TINY_KERNELS = 0.50, 500
"""Every model has some small kernels; hundreds of them, and half of all, can be avoided."""

MIN_WAITING_SHARE = 0.02
"""Share of the device's time lost to waits; less than this is not worth the search."""

MIN_FLOAT32_SHARE = 0.10
"""Share of the device's busy time in products that tensor cores do many times faster."""

_FLOAT32_PRODUCT = re.compile(
    r"(?<![a-z])sgemm|scudnn|simt_sgemm|_ffma_|convolve_sgemm|winograd\w*fp32|gemmSN", re.IGNORECASE
)
_FIRST_WITH_TENSOR_CORES, _FIRST_WITH_TF32 = 7, 8  # compute capability, its major number


@DETECTORS.register
def host_too_slow(facts: Facts) -> Finding | None:
    """Find a device that waits for the host to launch something."""
    if not len(facts.work):
        return None
    gaps = facts.gaps
    lost_ns = facts.idle_ns(IdleReason.HOST, IdleReason.LAUNCH)
    share = int(lost_ns.sum()) / facts.device_ns
    if share < MIN_IDLE_SHARE:
        return None
    worst = int(lost_ns.argmax())
    start_ns, length_ns = int(gaps.start_ns[worst]), int(gaps.duration_ns[worst])
    kernels = int(facts.work.is_kernel.sum())
    return Finding(
        id="host-bound",
        title=f"The device is idle {share:.0%} of the time because the host is too slow",
        text=f"In {count_text(int((lost_ns > 0).sum()), 'gap')} "
        f"({duration_text(int(lost_ns.sum()))} in total) the device had finished all its work "
        f"before the host launched more; {count_text(kernels, 'kernel')} took "
        f"{duration_text(float(facts.work.duration_ns[facts.work.is_kernel].sum()))} in total.",
        share=share,
        evidence=moment(start_ns, start_ns + length_ns),
        fix="Give the device more work per launch: a larger batch, fused operators, "
        'torch.compile(mode="reduce-overhead") or CUDA graphs; move Python work out of the loop.',
        severity=Severity.of_share(share),
    )


@DETECTORS.register
def waiting_copies(facts: Facts) -> Finding | None:
    """Find operators inside the steps that make the host wait for the device."""
    if not len(facts.work) or not facts.steps:
        return None
    slices = facts.trace.slices
    waits = facts.in_steps(waiting_calls(facts.trace, facts.work))
    operators = np.flatnonzero(slices.kind == SliceKind.OPERATOR)
    waits = waits[facts.within(operators)[waits]]
    if len(waits) < facts.steps:
        return None
    lost_ns = facts.idle_ns(IdleReason.SYNCHRONISATION, IdleReason.AFTER_SYNC)
    share = int(lost_ns.sum()) / facts.device_ns
    if share < MIN_WAITING_SHARE:
        return None
    above = _operators_above(facts, waits)
    waited_ns = int(slices.duration_ns[waits].sum())
    return Finding(
        id="waiting-copies",
        title=f"The host waits for the device {_often(len(waits) / facts.steps)} per step",
        text=f"Mostly in {facts.commonest(above)}: {count_text(len(waits), 'call')} that waited "
        f"for the device, {duration_text(waited_ns)} in total. After each one the device is idle "
        f"until the host launches more work: {share:.0%} of its time.",
        share=share,
        evidence=facts.on_timeline(facts.longest(above), facts.commonest(above)),
        fix="Keep results on the device: no .item(), .cpu(), print(loss) or `if tensor` in every "
        "step; accumulate the loss there and read it occasionally. Copy batches from pinned memory "
        "with non_blocking=True.",
        severity=Severity.of_share(share),
    )


@DETECTORS.register
def tiny_kernels(facts: Facts) -> Finding | None:
    """Find a program that launches many kernels that are shorter than their launch."""
    kernels = np.flatnonzero(facts.work.kind == WorkKind.COMPUTE)
    tiny = kernels[facts.work.duration_ns[kernels] < TINY_NS]
    if len(tiny) < max(MIN_TINY_KERNELS, MIN_TINY_SHARE * len(kernels)):
        return None
    idle = int(facts.idle_ns(*IdleReason).sum()) / facts.device_ns
    operators = facts.work.operator[facts.work.rows[tiny]]
    known = operators[operators != NO_SLICE]
    who = f"; most are launched by {shown_name(facts.commonest(known))}" if len(known) else ""
    row = int(facts.work.rows[tiny[len(tiny) // 2]])
    per_step = f" ({len(tiny) / facts.steps:,.0f} per step)" if facts.steps else ""
    return Finding(
        id="tiny-kernels",
        title=f"{len(tiny) / len(kernels):.0%} of the kernels take less than "
        f"{duration_text(TINY_NS)}",
        text=f"{count_text(len(tiny), 'kernel')}{per_step} are so short that launching them takes "
        f"longer than running them{who}. The device is idle {idle:.0%} of the time.",
        share=idle,
        evidence=facts.on_timeline(row),
        fix="Fuse several into one: torch.compile, fused or foreach optimizers, "
        "scaled_dot_product_attention, a larger batch; CUDA graphs make launches cheaper.",
        severity=Severity.of_share(idle),
    )


@DETECTORS.register
def float32_products(facts: Facts) -> Finding | None:
    """Find matrix products and convolutions in float32 on a device with tensor cores."""
    kernels = np.flatnonzero(facts.work.kind == WorkKind.COMPUTE)
    generation = _generation(facts)
    if not len(kernels) or (generation and generation < _FIRST_WITH_TENSOR_CORES):
        return None
    names = facts.trace.slices.name[facts.work.rows[kernels]]
    plain = ids_where(names, facts.trace.strings, _is_float32_product)
    slow = kernels[np.isin(names, plain)]
    busy_ns = int(facts.work.duration_ns.sum())
    spent_ns = int(facts.work.duration_ns[slow].sum())
    if spent_ns < MIN_FLOAT32_SHARE * busy_ns or not len(slow):
        return None
    share = spent_ns / busy_ns
    row = facts.longest(facts.work.rows[slow])
    return Finding(
        id="float32-products",
        title=f"Float32 products without tensor cores take {share:.0%} of the device's time",
        text=f"{count_text(len(slow), 'kernel')} multiplied in full float32 for "
        f"{duration_text(spent_ns)} in total, without using tensor cores.",
        share=share,
        evidence=facts.on_timeline(row),
        fix=_precision_fix(generation),
        severity=Severity.of_share(share),
    )


def _often(times: float) -> str:
    return "once" if round(times) == 1 else f"{times:,.0f} times"


def _is_float32_product(name: str) -> bool:
    return (
        _FLOAT32_PRODUCT.search(name) is not None and uses_tensor_cores(name) is not TensorCores.YES
    )


def _precision_fix(generation: int) -> str:
    if generation and generation < _FIRST_WITH_TF32:
        return (
            'Use torch.autocast("cuda", dtype=torch.float16) with a GradScaler, if the model\'s '
            "accuracy allows it."
        )
    return (
        'Use torch.set_float32_matmul_precision("high") (TF32; for convolutions '
        "torch.backends.cudnn.allow_tf32), or "
        'torch.autocast("cuda", dtype=torch.bfloat16), if the device has tensor cores for it.'
    )


def _generation(facts: Facts) -> int:
    """Return the major number of the devices' compute capability, 0 where the trace is silent."""
    majors = (device.compute_capability[0] for device in facts.trace.devices())
    return next((major for major in majors if major), 0)


def _operators_above(facts: Facts, rows: Int64) -> Int64:
    """Return the innermost operator around each of some slices, all of which are in one."""
    slices = facts.trace.slices
    above = slices.parent[rows].astype(np.int64)
    while len(climbing := np.flatnonzero(slices.kind[above] != SliceKind.OPERATOR)):
        above[climbing] = slices.parent[above[climbing]]
    return above
