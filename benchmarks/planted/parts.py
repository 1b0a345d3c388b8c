"""What the planted traces are made of: kernels' names, layers, optimizers, loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from made_kineto import Rank

COPIES = 21  # a stream
STEPS = 6
MB = 1_000_000

GEMM = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT"
GEMM_AMD = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1"
FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)"
FLASH_AMD = "attn_fwd"
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>("
    "int, float, c10::BFloat16 const*)"
)
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 11, false, false>("
    "float*, float const*, int, int, int, bool const*, int, bool)"
)
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>>(at::native::FusedAdamMathFunctor<float>)"
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
REDUCE_SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def pointwise(functor: str) -> str:
    """Return the name of an elementwise kernel."""
    return (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, "
        "std::array<char*, 3ul>>(int, at::native::GeluCUDAKernelImpl)"
    )


def layer(rank: Rank, scale: float = 1.0, gemm: str = "", attention: str = "") -> None:
    """Run a transformer's layer forwards: 1.6 ms of kernels, launched in 0.1 ms."""
    is_amd = rank.gpu.runtime == "hip"
    gemm = gemm or (GEMM_AMD if is_amd else GEMM)
    attention = attention or (FLASH_AMD if is_amd else FLASH)
    rank.op("aten::native_layer_norm", (NORM, 30 * scale))
    rank.op("aten::addmm", (gemm, 300 * scale))
    rank.op("aten::_scaled_dot_product_flash_attention", (attention, 250 * scale))
    rank.op("aten::addmm", (gemm, 150 * scale))
    rank.op("aten::native_layer_norm", (NORM, 30 * scale))
    rank.op("aten::addmm", (gemm, 400 * scale))
    rank.op("aten::gelu", (pointwise("GeluFunctor"), 40 * scale))
    rank.op("aten::addmm", (gemm, 400 * scale))


def backward(rank: Rank, scale: float = 1.0, gemm: str = "") -> None:
    """Run a layer backwards."""
    for name, us in (("AddmmBackward0", 900), ("GeluBackward0", 60), ("AddmmBackward0", 800),
                     ("ScaledDotProductFlashAttentionBackward0", 500),
                     ("NativeLayerNormBackward0", 90)):  # fmt: skip
        with rank.range(f"autograd::engine::evaluate_function: {name}", "cpu_op"):
            rank.op(
                name, ((gemm or GEMM) if name.startswith("A") else f"{name}_kernel", us * scale)
            )


def optimizer(rank: Rank) -> None:
    """Update the parameters by fused kernels."""
    with rank.range("Optimizer.step#AdamW.step"):
        rank.op("aten::_fused_adamw_", *[(ADAM, 200.0)] * 8)
    with rank.range("Optimizer.zero_grad#AdamW.zero_grad"):
        rank.python(30)


def steps(rank: Rank, count: int = STEPS, mark: str = "ProfilerStep#{}") -> Iterator[int]:
    """Count the steps of a loop; mark them where there is a mark."""
    for number in range(count):
        began = rank.now
        yield number
        if mark:
            rank.slice("user_annotation", mark.format(number + 4), began, rank.now)
        rank.now += 5


def training(rank: Rank, scale: float = 1.0, gemm: str = "") -> None:
    """Run one step of a healthy training: the device limits."""
    for _ in range(8):
        layer(rank, scale, gemm)
    for _ in range(8):
        backward(rank, scale, gemm)
    optimizer(rank)


def slow_host(rank: Rank) -> None:
    for _ in range(300):
        rank.python(60)
        rank.op("aten::addmm", (GEMM if rank.gpu.runtime == "cuda" else GEMM_AMD, 18))
