"""Programs that nothing is wrong with."""

from __future__ import annotations

from made_kineto import A100, COMPUTE, Gpu, Rank

from planted.parts import COPIES, FLASH, GEMM, MB, NORM, STEPS, layer, pointwise, steps, training


def healthy_training() -> list[Rank]:
    """Train; the loss is read once a step, when all work is queued."""
    rank = Rank()
    for _ in steps(rank):
        training(rank)
        rank.read()
    return [rank]


def healthy_unmarked_training() -> list[Rank]:
    """Train without marks, and without reading anything."""
    rank = Rank(A100)
    for _ in range(STEPS):
        training(rank, gemm="ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn")
    rank.wait()
    return [rank]


def pinned_batches() -> list[Rank]:
    """Copy the next batch from pinned memory while this one is computed."""
    rank = Rank()
    for _ in steps(rank):
        kind = "HtoD (Pinned -> Device)"
        rank.copy(kind, 200 * MB, 25.0, waits=False, stream=COPIES)
        training(rank)
        rank.read()
    return [rank]


def warm_up_only() -> list[Rank]:
    """Serve a healthy model; the first calls load modules and search for plans."""
    rank = Rank()
    rank.call("cuLibraryLoadData", 400_000)
    rank.copy("HtoD (Pageable -> Device)", 1_000 * MB, 8.0, waits=True)
    for name in (NORM, GEMM, FLASH, pointwise("GeluFunctor")):
        rank.call("cudaFuncGetAttributes", 60_000)
        rank.op("aten::first", (name, 100))
    rank.call("cudaMalloc", 2_000)
    for _ in range(200):
        layer(rank)
    rank.wait()
    return [rank]


def graph_decoding() -> list[Rank]:
    """Decode with CUDA graphs; the device limits."""
    rank = Rank()
    for _ in range(20):
        with rank.range("execute_context_0(0)_generation_32(32)"):
            rank.python(200)
            rank.graph([(GEMM, 30.0), (FLASH, 15.0), (GEMM, 20.0), (NORM, 3.0)] * 40)
    rank.wait()
    return [rank]


def preallocated_memory() -> list[Rank]:
    """Serve with a cache that takes all memory in advance."""
    rank = Rank()
    blocks = int(rank.gpu.memory * 0.94)
    for number in range(40):
        layer(rank)
        rank.memory(0x7F0000000000 + number, 20 * MB, blocks - 100 * MB, blocks)
        rank.memory(0x7F0000000000 + number, -20 * MB, blocks - 120 * MB, blocks)
    rank.wait()
    return [rank]


def overlapping_streams() -> list[Rank]:
    """Compute on two streams at once."""
    rank = Rank()
    for _ in steps(rank):
        for number in range(16):
            for _ in range(2):
                rank.op("aten::addmm", (GEMM, 400), stream=COMPUTE + 6 * (number % 2))
            layer(rank)
        rank.after(COMPUTE, COMPUTE + 6)
        rank.read()
    return [rank]


def merged_healthy_ranks() -> list[Rank]:
    """Train on four GPUs of one file; nothing is wrong."""
    ranks = [Rank(number=i, pid=2000 + i, world=4, now=1e6 + 300 * i) for i in range(4)]
    for rank in ranks:
        for _ in steps(rank, 4):
            training(rank)
            rank.read()
    return ranks


def split_prompt() -> list[Rank]:
    """Generate on a healthy device with an older server's marks: NVTX-like ranges, nested."""
    rank = Rank(Gpu("NVIDIA L40S", 8, 9, 47_696_445_440))
    for number in range(12):
        with rank.range("generate"), rank.range(f"forward step {number}"):
            for _ in range(12):
                layer(rank, 0.7)
            rank.read()
    return [rank]


def slow_first_step() -> list[Rank]:
    """Load and compile in the first of a few marked steps; the others are healthy."""
    rank = Rank()
    for number in steps(rank, 4):
        if number == 0:
            rank.call("cuModuleLoadData", 300_000)
            with rank.range("_compile.compile_inner (dynamo_timed)", "cpu_op"):
                rank.python(5_000_000)
        training(rank)
        rank.read()
    return [rank]


def late_end() -> list[Rank]:
    """End a healthy recording with half a second of the profiler's own work."""
    rank = Rank()
    for _ in range(4):
        training(rank)
    rank.wait()
    rank.python(500_000)
    rank.op("aten::zero_", (pointwise("FillFunctor<int>"), 2))
    return [rank]


def compiled_model() -> list[Rank]:
    """Train a compiled model: Triton's kernels, nothing wrong."""
    rank = Rank(A100)
    for _ in steps(rank):
        for _ in range(40):
            rank.launch("triton_poi_fused_add_mul_relu_0", 40)
            rank.launch("triton_red_fused_native_layer_norm_1", 60)
            rank.launch("triton_tem_fused_mm_2", 400)
        rank.read()
    return [rank]


MADE = (
    healthy_training,
    healthy_unmarked_training,
    pinned_batches,
    warm_up_only,
    graph_decoding,
    preallocated_memory,
    overlapping_streams,
    merged_healthy_ranks,
    split_prompt,
    slow_first_step,
    late_end,
    compiled_model,
)
