"""Arithmetic on devices: the share of tensor cores, and the FLOP/s that operators achieved.

Operations come from the shapes that operators were called with (see flops); an operator without
recorded shapes or without a formula counts none. They are divided by the summed time of the
kernels, copies and fills under the operator, not by the time of its call on the host.

Whether a kernel uses tensor cores is judged by its name, with three answers:

``yes``
    The name holds a word of the matrix instructions: NVIDIA's ``hmma``, ``imma``, ``qmma``,
    ``dmma``, ``wgmma``; cuBLAS's and CUTLASS's ``tensorop``, ``nvjet`` and shapes as in
    ``s16816gemm``, ``h884cudnn``; ``xmma`` with a 16-bit, 8-bit or TF32 type; attention kernels
    that exist for tensor cores only (flash-attention, cuDNN's, TensorRT-LLM's); TensorRT-LLM's
    products for ``sm90`` and ``sm100``; on AMD ``mfma``, ``wmma`` and Tensile's ``_MI16x16x1``.
``no``
    The name is that of arithmetic without them (``sgemm``, ``dgemm``, ``scudnn``, ``gemv``,
    ``simt``, cuDNN's engines for float) or of something that multiplies no matrices: elementwise,
    reductions, copies, normalisations, softmax, sorting, embeddings, communication.
``unknown``
    Everything else: a Triton or generated kernel may do either, and ``gemm`` alone does not tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np

from stepscope.analysis.base.sums import summed
from stepscope.analysis.base.table import Table
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.calls.launches import launches
from stepscope.analysis.flops.count import flops_of, flops_per_second
from stepscope.analysis.work.kernel_names import demangled
from stepscope.analysis.work.work import DeviceWork, WorkKind, device_work, is_communication
from stepscope.trace.measures import measure, states
from stepscope.trace.model import Float64, Int64, Trace
from stepscope.units import COUNT, FLOPS, FLOPS_RATE, SHARE, TEXT, TIME

_YES = re.compile(
    r"(?<![a-z])[hiqbd]mma|gmma|utcmma|tensor_?op|nvjet"
    r"|[hsi](884|1688|16816|16832)(gemm|fprop|dgrad|wgrad|cudnn)"
    r"|xmma_\w*(f16|tf32|e4m3|e5m2|i8)"
    r"|flash_(fwd|bwd)_(?!convert|dot)|fmha_cutlass|fmha_v2|fmhaSm\d|cudnn_\w*sdpa"
    r"|^(bmm|gemm)_\w*_sm(90|1\d\d)"
    r"|mfma|(?<![a-z])wmma|_MI\d+x\d+x\d",
    re.IGNORECASE,
)
_NO = re.compile(
    r"elementwise|reduce_\w*kernel|reduction::|splitKreduce|softmax|layer_?norm|rms_?norm"
    r"|batch_?norm|bn_(fw|bw)|norm_kernel|CatArray|copy_kernel|fill_?kernel|index_?select|index_?put"
    r"|index_kernel|gather_kernel|scatter|embedding|nchwToNhwc|nhwcToNchw|pool|dropout|philox|random"
    r"|distribution|cub::|thrust::|rocprim|radix|sort|multi_tensor_apply|transpose|triu|tril"
    r"|compute\w*Offsets|memcpy|memset|simt|(?<![a-z])[sdcz]gemm|gcgemm|gemv|gemmSN|gemmk1"
    r"|(?<![a-z])scudnn|_ffma_|fft|winograd|im2col|col2im|NLL|nll_loss|partial_segment|rotary"
    r"|(wgrad|dgrad)\w*_(engine|alg1_1)<float|scalePackedTensor|flip_filter|reduce_wgrad"
    r"|epilogue::impl|pointwise|quant_kernel|act_and_mul|kvcache|dot_kernel|routing",
    re.IGNORECASE,
)


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

    operator: tuple[str, ...] = measure("Operator", TEXT)
    calls: Int64 = measure("Calls", COUNT)
    flops: Int64 = measure("Operations", FLOPS)
    device_ns: Int64 = measure("Device time", TIME, "The summed work of those calls")
    peak_share: Float64 = measure("Of peak", SHARE)  # of the device's 16-bit peak; 0 if unknown

    @property
    @states("Achieved", FLOPS_RATE, after="device_ns")
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


def operator_flops(trace: Trace, peak: float = np.inf) -> OperatorFlops:
    """Return the operations and the device time of the operators for which both are known."""
    tree = call_tree(trace)
    launched = launches(tree)
    flops = tree.of(flops_of(trace))
    if launched is None or tree.is_device is None:
        calls = np.zeros(0, np.int64)
        device_ns = np.zeros(len(tree), np.int64)
    else:
        device_ns = launched.device_ns
        calls = np.flatnonzero((flops > 0) & (device_ns > 0) & ~tree.is_device)
    ids, group = np.unique(tree.of(trace.slices.name)[calls], return_inverse=True)
    spent_ns = summed(group, device_ns[calls], len(ids))
    order = np.argsort(-spent_ns, kind="stable")
    done = summed(group, flops[calls], len(ids))[order]
    return OperatorFlops(
        operator=tuple(trace.strings[int(i)] for i in ids[order]),
        calls=np.bincount(group, minlength=len(ids))[order],
        flops=done,
        device_ns=spent_ns[order],
        peak_share=flops_per_second(done, spent_ns[order]) / peak,
    )


def device_model(trace: Trace, device: str) -> str:
    """Return what a device is, such as ``NVIDIA H100 80GB HBM3``; "" when the trace does not say.

    ROCm numbers devices otherwise in events than in their description: where all that are
    described are of one model, that is it.
    """
    models = {
        str(properties.id): properties.name for properties in trace.devices() if properties.name
    }
    only = next(iter(models.values())) if len(set(models.values())) == 1 else ""
    return models.get(device, only)


class TensorCores(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@lru_cache(maxsize=4096)
def uses_tensor_cores(kernel_name: str) -> TensorCores:
    """Tell by a kernel's name whether it computes on tensor cores."""
    kernel_name = demangled(kernel_name)
    if _YES.search(kernel_name):
        return TensorCores.YES
    if is_communication(kernel_name) or _NO.search(kernel_name):
        return TensorCores.NO
    return TensorCores.UNKNOWN
