"""Devices that wait for the host: Python, values that are read, the driver, the loader."""

from __future__ import annotations

from made_kineto import A100, MI300, V100, Rank

from planted.parts import FLASH, GEMM, NORM, STEPS, layer, pointwise, slow_host, steps, training


def host_bound() -> list[Rank]:
    """Launch small kernels from slow Python, in marked steps."""
    rank = Rank()
    for _ in steps(rank):
        slow_host(rank)
    return [rank]


def host_bound_unmarked() -> list[Rank]:
    """Do the same on an MI300 and without marks."""
    rank = Rank(MI300)
    for _ in range(STEPS):
        slow_host(rank)
    rank.wait()
    return [rank]


def long_gaps() -> list[Rank]:
    """Compute in bursts, with 150 ms of Python between them; no marks."""
    rank = Rank()
    for _ in range(8):
        for _ in range(40):
            layer(rank)
        rank.wait()
        rank.python(150_000)
    layer(rank)
    rank.wait()
    return [rank]


def late_first_kernel() -> list[Rank]:
    """Prepare on the host for most of an only step, as TimeSformer does."""
    rank = Rank(MI300)
    for _ in steps(rank, 1):
        rank.op("aten::stack")
        rank.python(270_000)
        for _ in range(70):
            layer(rank)
        rank.wait()
    return [rank]


def reading_values() -> list[Rank]:
    """Read a value after every layer: .item()."""
    rank = Rank()
    for _ in steps(rank):
        for _ in range(40):
            layer(rank, 0.15)
            rank.read()
            rank.python(150)
    return [rank]


def boolean_indexing() -> list[Rank]:
    """Index by masks, without marks: each waits for the number of its elements."""
    rank = Rank(A100)
    for _ in range(STEPS * 40):
        rank.op("aten::mul", (pointwise("MulFunctor<float>"), 60))
        with rank.range("aten::index", "cpu_op"), rank.range("aten::nonzero", "cpu_op"):
            rank.launch("void at_cuda_detail::cub::DeviceSelectSweepKernel<long*>(int)", 8)
            rank.call("cudaMemcpyAsync", 4)
            rank.wait("cudaStreamSynchronize")
            rank.python(70)
        rank.op("aten::addmm", (GEMM, 40))
    return [rank]


def driver_allocations() -> list[Rank]:
    """Empty the cache in every step: the driver is asked for memory again and again."""
    rank = Rank()
    for _ in steps(rank):
        for _ in range(8):
            with rank.range("aten::empty", "cpu_op"):
                rank.call("cudaMalloc", 900)
            layer(rank, 0.4)
        rank.wait()
        for _ in range(8):
            rank.call("cudaFree", 1_100)
    return [rank]


def driver_allocations_unmarked() -> list[Rank]:
    """Do the same in a server, without marks."""
    rank = Rank(A100)
    for _ in range(STEPS * 4):
        for _ in range(4):
            with rank.range("aten::empty", "cpu_op"):
                rank.call("cudaMalloc", 900)
            layer(rank, 0.4)
        rank.wait()
        for _ in range(4):
            rank.call("cudaFree", 1_100)
    return [rank]


def recompiling() -> list[Rank]:
    """Compile anew for every length of the input, as torch's own profiler tells of it."""
    rank = Rank()
    for number in steps(rank, 10):
        with rank.range(f"Torch-Compiled Region: 0/{min(number, 7)}", "cpu_op"):
            if number:
                with rank.range("_compile.compile_inner (dynamo_timed)", "cpu_op"):
                    rank.python(20_000)
                    with rank.range("OutputGraph.call_user_compiler (dynamo_timed)", "cpu_op"):
                        rank.python(380_000)
            for _ in range(20):
                layer(rank)
        rank.read()
    return [rank]


def slow_loader() -> list[Rank]:
    """Wait for every batch."""
    rank = Rank()
    for _ in steps(rank):
        with rank.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            rank.python(45_000)
        training(rank)
        rank.read()
    return [rank]


def slow_loader_unmarked() -> list[Rank]:
    """Do the same without marks."""
    rank = Rank(V100)
    for _ in range(STEPS):
        with rank.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            rank.python(45_000)
        training(rank)
    rank.wait()
    return [rank]


def slow_scheduler() -> list[Rank]:
    """Decode with CUDA graphs; the scheduler takes longer than the device."""
    rank = Rank()
    for _ in range(30):
        with rank.range("step[DECODE bs=32]"):
            rank.python(300)
            rank.graph([(GEMM, 30.0), (FLASH, 15.0), (GEMM, 20.0), (NORM, 3.0)] * 40)
            rank.read()
        rank.python(4_000)
    return [rank]


def kernels_only() -> list[Rank]:
    """Wait for the host, in a file without the calls that launched anything."""
    rank = Rank()
    for _ in steps(rank):
        slow_host(rank)
    rank.events = [e for e in rank.events if e.get("cat") not in {"cuda_runtime", "ac2g"}]
    return [rank]


MADE = (
    host_bound,
    host_bound_unmarked,
    long_gaps,
    late_first_kernel,
    reading_values,
    boolean_indexing,
    driver_allocations,
    driver_allocations_unmarked,
    recompiling,
    slow_loader,
    slow_loader_unmarked,
    slow_scheduler,
    kernels_only,
)
