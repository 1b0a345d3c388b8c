"""Communication, exposed and hidden."""

from __future__ import annotations

from made_kineto import A100, COMMUNICATION, COMPUTE, MI300, Rank

from planted.parts import (
    ALL_GATHER,
    ALL_REDUCE,
    FLASH,
    GEMM,
    REDUCE_SCATTER,
    SEND,
    STEPS,
    backward,
    layer,
    optimizer,
    steps,
)


def exposed_nccl() -> list[Rank]:
    """Reduce all gradients after the backward pass."""
    rank = Rank(world=8)
    for _ in steps(rank):
        for _ in range(8):
            layer(rank)
        for _ in range(8):
            backward(rank)
        rank.after(COMMUNICATION, COMPUTE)
        for _ in range(4):
            rank.op("nccl:all_reduce", (ALL_REDUCE, 9_000), stream=COMMUNICATION)
        rank.after(COMPUTE, COMMUNICATION)
        optimizer(rank)
        rank.read()
    return [rank]


def overlapped_nccl() -> list[Rank]:
    """Reduce gradients while the backward pass goes on: little is exposed."""
    rank = Rank(world=8)
    for _ in steps(rank):
        for _ in range(8):
            layer(rank)
        for _ in range(8):
            backward(rank)
            rank.after(COMMUNICATION, COMPUTE)
            rank.op("nccl:all_reduce", (ALL_REDUCE, 1_500), stream=COMMUNICATION)
        rank.after(COMPUTE, COMMUNICATION)
        optimizer(rank)
        rank.read()
    return [rank]


def exposed_fsdp() -> list[Rank]:
    """Gather the shards of each layer when it is reached: nothing is prefetched."""
    rank = Rank(A100, world=16)
    for _ in steps(rank):
        for run in (layer, backward):
            for _ in range(8):
                rank.after(COMMUNICATION, COMPUTE)
                rank.op("nccl:_all_gather_base", (ALL_GATHER, 2_500), stream=COMMUNICATION)
                rank.after(COMPUTE, COMMUNICATION)
                run(rank)
            rank.op("nccl:_reduce_scatter_base", (REDUCE_SCATTER, 1_000), stream=COMMUNICATION)
        optimizer(rank)
        rank.read()
    return [rank]


def exposed_rccl() -> list[Rank]:
    """Serve a model on eight MI300s without marks: an all-reduce after each layer."""
    rank = Rank(MI300, world=8)
    for _ in range(STEPS * 8):
        layer(rank, 0.3)
        rank.op(
            "_C_custom_ar::all_reduce",
            ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", 600),
        )
    rank.wait()
    return [rank]


def exposed_deep_ep() -> list[Rank]:
    """Serve a mixture of experts: dispatch and combine between nodes."""
    rank = Rank(world=16)
    for _ in range(STEPS * 8):
        layer(rank, 0.3)
        rank.launch("void dpsk::ep::internode::dispatch<true, 2, false, 9216>(int4*, float*)", 700)
        rank.op("aten::bmm", (GEMM, 300))
        rank.launch("void deep_ep::internode::combine<__nv_bfloat16, 8>(int4*, float*)", 500)
    rank.wait()
    return [rank]


def exposed_nvshmem() -> list[Rank]:
    """Exchange rows of embeddings through NVSHMEM."""
    rank = Rank(world=8)
    for _ in steps(rank):
        for _ in range(8):
            layer(rank, 0.5)
            rank.launch("void nvshmemi_alltoallv_on_stream_kernel<int, 4>(int, long*)", 900)
        rank.read()
    return [rank]


def exposed_custom_all_reduce() -> list[Rank]:
    """Decode with tensor parallelism: vLLM's own all-reduce inside a CUDA graph."""
    rank = Rank(world=8)
    reduce = "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, int)"
    graph = [(GEMM, 12.0), (FLASH, 10.0), (GEMM, 8.0), (reduce, 22.0)] * 80
    for _ in range(20):
        with rank.range("execute_context_0(0)_generation_64(64)"):
            rank.python(60)
            rank.graph(graph)
            rank.read()
    return [rank]


def exposed_fused_all_reduce() -> list[Rank]:
    """Decode with TensorRT-LLM's kernel that reduces, adds and norms; no marks."""
    rank = Rank(world=4)
    reduce = (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
        "flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern>(Params<__nv_bfloat16>)"
    )
    for _ in range(20):
        rank.python(40)
        rank.graph([(GEMM, 12.0), (FLASH, 10.0), (GEMM, 8.0), (reduce, 20.0)] * 60)
    rank.wait()
    return [rank]


def pipeline_bubble() -> list[Rank]:
    """Wait for the other stages of a pipeline."""
    rank = Rank(world=4)
    for _ in steps(rank):
        for run in (layer, backward):
            for _ in range(4):
                rank.after(COMMUNICATION, COMPUTE)
                rank.op("nccl:recv", (SEND, 5_000), stream=COMMUNICATION)
                rank.after(COMPUTE, COMMUNICATION)
                run(rank)
        optimizer(rank)
        rank.read()
    return [rank]


def merged_ranks() -> list[Rank]:
    """Train on two GPUs of one file, with their communication exposed."""
    ranks = [Rank(number=0, pid=1000, world=2), Rank(number=1, pid=1001, world=2)]
    for rank in ranks:
        for _ in steps(rank):
            for _ in range(6):
                layer(rank)
            rank.after(COMMUNICATION, COMPUTE)
            rank.op("nccl:all_reduce", (ALL_REDUCE, 12_000), stream=COMMUNICATION)
            rank.after(COMPUTE, COMMUNICATION)
            optimizer(rank)
            rank.read()
    return ranks


def exposed_gloo() -> list[Rank]:
    """Train on processors: the backward pass waits for gloo, which has threads of its own."""
    rank = Rank(world=300)
    for _ in steps(rank):
        for _ in range(20):
            rank.python(100)
            rank.op("aten::mm")
        began = rank.now
        rank.python(30_000)
        rank.slice("user_annotation", "## backward ##", began, rank.now)
        rank.slice("user_annotation", "gloo:all_reduce", began + 500, rank.now - 100)
        rank.events[-1]["tid"] += 1
    return [rank]


def host_far_ahead() -> list[Rank]:
    """Train without ever waiting: the device works on the steps when the host has ended them."""
    rank = Rank(world=8)
    for _ in range(3):
        for _ in range(4):
            for _ in range(8):
                layer(rank)
            for _ in range(8):
                backward(rank)
        rank.after(COMMUNICATION, COMPUTE)
        rank.op("nccl:all_reduce", (ALL_REDUCE, 60_000), stream=COMMUNICATION)
        rank.after(COMPUTE, COMMUNICATION)
        optimizer(rank)
    rank.wait()
    return [rank]


def overlap_in_graph() -> list[Rank]:
    """Replay graphs whose collectives run beside their products."""
    rank = Rank(world=8)
    for _ in range(20):
        rank.python(50)
        correlation = rank.call("cudaGraphLaunch", 30)
        for node in range(60):
            number = {"graph id": 1, "graph node id": node}
            rank.work("kernel", GEMM, 60.0, COMPUTE, correlation, **number)
            rank.work("kernel", ALL_REDUCE, 40.0, COMMUNICATION, correlation, **number)
    rank.wait()
    return [rank]


MADE = (
    exposed_nccl,
    overlapped_nccl,
    exposed_fsdp,
    exposed_rccl,
    exposed_deep_ep,
    exposed_nvshmem,
    exposed_custom_all_reduce,
    exposed_fused_all_reduce,
    pipeline_bubble,
    merged_ranks,
    exposed_gloo,
    host_far_ahead,
    overlap_in_graph,
)
