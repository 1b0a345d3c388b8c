"""Kernels and copies that others would replace."""

from __future__ import annotations

from made_kineto import A100, MI300, V100, Rank

from planted.parts import GEMM, MB, SOFTMAX, STEPS, layer, pointwise, steps, training


def pageable_batches() -> list[Rank]:
    """Copy a batch from pageable memory in every step."""
    rank = Rank()
    for _ in steps(rank):
        rank.copy("HtoD (Pageable -> Device)", 200 * MB, 6.0, waits=True)
        training(rank, 0.6)
        rank.read()
    return [rank]


def pageable_batches_amd() -> list[Rank]:
    """Do the same on an MI300, whose copies have other names, and without marks."""
    rank = Rank(MI300)
    for _ in range(STEPS):
        rank.copy("HtoD (Host -> Device)", 200 * MB, 6.0, waits=True)
        for _ in range(12):
            layer(rank)
    rank.wait()
    return [rank]


def results_back() -> list[Rank]:
    """Copy all results back to pageable memory."""
    rank = Rank(A100)
    for _ in steps(rank):
        for _ in range(12):
            layer(rank)
        rank.copy("DtoH (Device -> Pageable)", 60 * MB, 3.0, waits=True)
    return [rank]


def moving_rows() -> list[Rank]:
    """Copy tensors to and fro on the device."""
    rank = Rank()
    for _ in steps(rank):
        for _ in range(8):
            layer(rank, 0.5)
            rank.copy("DtoD (Device -> Device)", 1_000 * MB, 1_400.0, waits=False)
        rank.read()
    return [rank]


def saved_in_every_step() -> list[Rank]:
    """Copy the model's state back in every step, tensor by tensor."""
    rank = Rank()
    for _ in steps(rank):
        training(rank, 0.4)
        for _ in range(40):
            rank.copy("DtoH (Device -> Pageable)", 4 * MB, 4.0, waits=True)
    return [rank]


def tiny_kernels() -> list[Rank]:
    """Work on tensors of a few elements."""
    rank = Rank()
    for _ in steps(rank):
        for number in range(700):
            functor = ("MulFunctor<float>", "CUDAFunctor_add<float>", "sqrt_kernel")[number % 3]
            rank.op("aten::mul", (pointwise(functor), 2.0))
        rank.read()
    return [rank]


def float64_products() -> list[Rank]:
    """Multiply doubles."""
    rank = Rank(A100)
    for _ in steps(rank):
        for _ in range(30):
            rank.op(
                "aten::mm", ("void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4>", 900)
            )
            rank.op("aten::tanh", (pointwise("tanh_kernel_cuda<double>"), 60))
        rank.read()
    return [rank]


def float32_products() -> list[Rank]:
    """Multiply in full float32 on an A100."""
    rank = Rank(A100)
    for _ in steps(rank):
        training(rank, gemm="ampere_sgemm_128x64_nn")
        rank.read()
    return [rank]


def float32_convolutions() -> list[Rank]:
    """Convolve in float32 on a V100, without marks."""
    rank = Rank(V100)
    for _ in range(40):
        rank.op("aten::cudnn_convolution", ("volta_scudnn_128x64_relu_interior_nn_v1", 900))
        rank.op("aten::cudnn_batch_norm", ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", 150))
        rank.op("aten::relu_", (pointwise("launch_clamp_scalar"), 80))
    rank.wait()
    return [rank]


def float32_on_amd() -> list[Rank]:
    """Multiply float32 on an MI300."""
    rank = Rank(MI300)
    for _ in steps(rank):
        for _ in range(12):
            layer(rank, gemm="Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x2x1_SN_1LDSB0_APM1")
        rank.wait()
    return [rank]


def written_out_attention() -> list[Rank]:
    """Multiply, scale, mask, take the softmax, multiply."""
    rank = Rank()
    for _ in steps(rank):
        for _ in range(12):
            rank.op("aten::addmm", (GEMM, 200))
            rank.op("aten::bmm", (GEMM, 300))
            rank.op("aten::div", (pointwise("MulFunctor<float>"), 250))
            rank.op("aten::masked_fill", (pointwise("masked_fill_kernel"), 250))
            rank.op("aten::_softmax", (SOFTMAX, 350))
            rank.op("aten::bmm", (GEMM, 300))
            rank.op("aten::addmm", (GEMM, 400))
        rank.read()
    return [rank]


def elementwise_chain() -> list[Rank]:
    """Write an activation out, each step a kernel over a large tensor."""
    rank = Rank(A100)
    chain = ("MulFunctor<float>", "CUDAFunctor_add<float>", "tanh_kernel_cuda", "sqrt_kernel_cuda",
             "pow_tensor_scalar", "AUnaryFunctor<float>", "neg_kernel", "exp_kernel")  # fmt: skip
    for _ in steps(rank):
        for _ in range(10):
            rank.op("aten::addmm", (GEMM, 300))
            for functor in chain:
                rank.op("aten::mul", (pointwise(functor), 180))
        rank.read()
    return [rank]


MADE = (
    pageable_batches,
    pageable_batches_amd,
    results_back,
    moving_rows,
    saved_in_every_step,
    tiny_kernels,
    float64_products,
    float32_products,
    float32_convolutions,
    float32_on_amd,
    written_out_attention,
    elementwise_chain,
)
