"""Made GPU traces with one planted problem each, and healthy ones, in different dress.

A function makes one trace: how a program that people run looks to Kineto, with one thing wrong.
``graded_traces.toml`` says what is to be found in each.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from made_kineto import A100, COMMUNICATION, COMPUTE, MI300, V100, Gpu, Rank, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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


def _slow_host(rank: Rank) -> None:
    for _ in range(300):
        rank.python(60)
        rank.op("aten::addmm", (GEMM if rank.gpu.runtime == "cuda" else GEMM_AMD, 18))


def host_bound() -> list[Rank]:
    """Launch small kernels from slow Python, in marked steps."""
    rank = Rank()
    for _ in steps(rank):
        _slow_host(rank)
    return [rank]


def host_bound_unmarked() -> list[Rank]:
    """Do the same on an MI300 and without marks."""
    rank = Rank(MI300)
    for _ in range(STEPS):
        _slow_host(rank)
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


def pinned_batches() -> list[Rank]:
    """Copy the next batch from pinned memory while this one is computed."""
    rank = Rank()
    for _ in steps(rank):
        kind = "HtoD (Pinned -> Device)"
        rank.copy(kind, 200 * MB, 25.0, waits=False, stream=COPIES)
        training(rank)
        rank.read()
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


def tiny_kernels() -> list[Rank]:
    """Work on tensors of a few elements."""
    rank = Rank()
    for _ in steps(rank):
        for number in range(700):
            functor = ("MulFunctor<float>", "CUDAFunctor_add<float>", "sqrt_kernel")[number % 3]
            rank.op("aten::mul", (pointwise(functor), 2.0))
        rank.read()
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


def preallocated_memory() -> list[Rank]:
    """Serve with a cache that takes all memory in advance."""
    rank = Rank()
    held = int(rank.gpu.memory * 0.94)
    for number in range(40):
        layer(rank)
        rank.memory(0x7F0000000000 + number, 20 * MB, held - 100 * MB, held)
        rank.memory(0x7F0000000000 + number, -20 * MB, held - 120 * MB, held)
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


def merged_healthy_ranks() -> list[Rank]:
    """Train on four GPUs of one file; nothing is wrong."""
    ranks = [Rank(number=i, pid=2000 + i, world=4, now=1e6 + 300 * i) for i in range(4)]
    for rank in ranks:
        for _ in steps(rank, 4):
            training(rank)
            rank.read()
    return ranks


def saved_in_every_step() -> list[Rank]:
    """Copy the model's state back in every step, tensor by tensor."""
    rank = Rank()
    for _ in steps(rank):
        training(rank, 0.4)
        for _ in range(40):
            rank.copy("DtoH (Device -> Pageable)", 4 * MB, 4.0, waits=True)
    return [rank]


def split_prompt() -> list[Rank]:
    """Generate on a healthy device with an older server's marks: NVTX-like ranges, nested."""
    rank = Rank(Gpu("NVIDIA L40S", 8, 9, 47_696_445_440))
    for number in range(12):
        with rank.range("generate"), rank.range(f"forward step {number}"):
            for _ in range(12):
                layer(rank, 0.7)
            rank.read()
    return [rank]


def jax_gaps(path: Path) -> None:
    """Write a Chrome trace of JAX's whose GPU waits for the host."""
    _jax(path, gap_us=3_000.0)


def jax_healthy(path: Path) -> None:
    """Write a Chrome trace of JAX's whose GPU is busy."""
    _jax(path, gap_us=10.0)


def _jax(path: Path, gap_us: float) -> None:
    events: list[dict[str, Any]] = [
        _named("process_name", 1, 0, "/device:GPU:0"),
        _named("thread_name", 1, 13, "Stream #13(Compute,MemcpyD2D)"),
        _named("process_name", 701, 0, "/host:CPU"),
        _named("thread_name", 701, 1, "python"),
    ]
    now, number = 100.0, itertools.count(1)
    for _ in range(20):
        began = now
        for op in ("loop_fusion", "cublas-gemm", "input_reduce_fusion") * 20:
            args = {"hlo_module": "jit_step", "hlo_op": op, "correlation_id": next(number)}
            events.append(
                {"ph": "X", "pid": 1, "tid": 13, "ts": now, "dur": 50.0, "name": op, "args": args}
            )
            now += 51
        now += gap_us
        events.append(
            {"ph": "X", "pid": 701, "tid": 1, "ts": began - 40, "dur": 30.0,
             "name": "PjitFunction(step)"}
        )  # fmt: skip
    path.write_text(json.dumps({"displayTimeUnit": "ns", "metadata": {}, "traceEvents": events}))


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


_KINETO: tuple[Callable[[], list[Rank]], ...] = (
    *(healthy_training, healthy_unmarked_training, exposed_nccl, overlapped_nccl, exposed_fsdp),
    *(exposed_rccl, exposed_deep_ep, exposed_nvshmem, exposed_custom_all_reduce),
    *(exposed_fused_all_reduce, pipeline_bubble, host_bound, host_bound_unmarked, long_gaps),
    *(late_first_kernel, reading_values, boolean_indexing, pageable_batches),
    *(pageable_batches_amd, results_back, pinned_batches, moving_rows, driver_allocations),
    *(driver_allocations_unmarked, tiny_kernels, recompiling, float64_products),
    *(float32_products, float32_convolutions, written_out_attention, elementwise_chain),
    *(slow_loader, slow_loader_unmarked, warm_up_only, graph_decoding, slow_scheduler),
    *(preallocated_memory, overlapping_streams, merged_ranks, merged_healthy_ranks),
    *(saved_in_every_step, split_prompt),
)


def make_all(folder: Path) -> list[Path]:
    """Write all made traces, and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for make in _KINETO:
        files.append(folder / f"{make.__name__}.pt.trace.json")
        write(files[-1], *make())
    for tell in (jax_gaps, jax_healthy):
        files.append(folder / f"{tell.__name__}.trace.json")
        tell(files[-1])
    return files
