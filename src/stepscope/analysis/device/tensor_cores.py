"""Whether a kernel uses tensor cores, judged by its name: a heuristic with three answers.

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
from enum import Enum
from functools import lru_cache

from stepscope.analysis.device.kernel_names import demangled
from stepscope.analysis.device.work import is_communication

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


class TensorCores(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@lru_cache(maxsize=4096)
def uses_tensor_cores(kernel_name: str) -> TensorCores:
    """Tell by the name of a kernel whether it computes on tensor cores."""
    kernel_name = demangled(kernel_name)
    if _YES.search(kernel_name):
        return TensorCores.YES
    if is_communication(kernel_name) or _NO.search(kernel_name):
        return TensorCores.NO
    return TensorCores.UNKNOWN
