"""Problems of programs with devices: on traces written down by hand, and on real ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from made_trace import Call, trace_of_calls
from sample_traces import SAMPLES, sample_name, sample_path
from stepscope.analysis.findings import Severity, find_problems
from stepscope.formats import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.analysis.findings import Finding
    from stepscope.trace.model import Trace

DEVICE = 3  # the track of the device's stream
LENGTH = 10_000  # of a step, in µs
V100 = {"id": 0, "name": "Tesla V100", "computeMajor": 7, "totalGlobalMem": 32 * 10**9}
P100 = {"id": 0, "name": "Tesla P100", "computeMajor": 6, "totalGlobalMem": 16 * 10**9}
STEPS = 5


class Program:
    """Operators that launch kernels: the launch takes 5 µs, the kernel starts when it is done."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def launch(
        self, at: int, kernel: str, length: int, delay: int = 5, operator: str = "aten::mm"
    ) -> int:
        """Launch a kernel from an operator at a time; returns when the kernel ends."""
        number, start = len(self.calls), at + delay
        self.calls += [
            Call(operator, at, at + 5),
            Call("cudaLaunchKernel", at, at + 5, "cuda_runtime", correlation=number),
            Call(kernel, start, start + length, "kernel", DEVICE, correlation=number),
        ]
        return start + length

    def read_back(self, at: int, until: int) -> None:
        """Read a number back, as `.item()` does: the host waits until the device is done."""
        number = len(self.calls)
        self.calls += [
            Call("aten::item", at, until),
            Call("aten::_local_scalar_dense", at, until),
            Call("cudaMemcpyAsync", at, at + 2, "cuda_runtime", correlation=number),
            Call("Memcpy DtoH", until - 3, until - 1, "gpu_memcpy", DEVICE, correlation=number),
            Call("cudaStreamSynchronize", at + 2, until, "cuda_runtime"),
        ]

    def select(self, at: int, until: int) -> None:
        """Index with a mask: count, wait for the count, and gather."""
        number, half = len(self.calls), (at + until) // 2
        self.calls += [
            Call("aten::index", at, until),
            Call("aten::nonzero", at, half + 5),
            Call("cudaLaunchKernel", at, at + 5, "cuda_runtime", correlation=number),
            Call("DeviceReduce", at + 5, at + 7, "kernel", DEVICE, correlation=number),
            Call("cudaMemcpyAsync", at + 6, at + 9, "cuda_runtime", correlation=number + 1),
            Call("Memcpy DtoH", half, half + 2, "gpu_memcpy", DEVICE, correlation=number + 1),
            Call("cudaStreamSynchronize", at + 9, half + 4, "cuda_runtime"),
            Call("cudaLaunchKernel", until - 5, until, "cuda_runtime", correlation=number + 2),
            Call("gather", until, until + 2, "kernel", DEVICE, correlation=number + 2),
        ]

    def copy(self, at: int, length: int, name: str) -> None:
        """Copy memory, and let nobody wait for it."""
        number = len(self.calls)
        self.calls += [
            Call("aten::copy_", at, at + 5),
            Call("cudaMemcpyAsync", at, at + 5, "cuda_runtime", correlation=number),
            Call(name, at + 5, at + 5 + length, "gpu_memcpy", DEVICE, correlation=number),
        ]

    def call(self, at: int, until: int, name: str) -> None:
        """Call the driver from an operator."""
        self.calls += [
            Call("aten::empty", at, until),
            Call(name, at, until, "cuda_runtime"),
        ]

    def trace(self, **info: Any) -> Trace:
        steps = [
            Call(f"ProfilerStep#{i}", i * LENGTH, (i + 1) * LENGTH, "user_annotation")
            for i in range(STEPS)
        ]
        return trace_of_calls([*steps, *self.calls], end_ns=STEPS * LENGTH * 1000, **info)


def finding_of(trace: Trace, problem: str) -> Finding | None:
    (finding,) = [item for item in find_problems(trace) if item.id == problem] or [None]
    return finding


def one_after_the_other(kernel_us: int, every_us: int, kernel: str = "sgemm") -> Program:
    """Launch kernels at even times: where they are shorter than that, the device waits."""
    program = Program()
    for at in range(0, STEPS * LENGTH - every_us, every_us):
        program.launch(at, kernel, kernel_us)
    return program


def test_a_host_that_is_too_slow() -> None:
    finding = finding_of(one_after_the_other(kernel_us=20, every_us=100).trace(), "host-bound")
    assert finding is not None
    assert finding.share == pytest.approx(0.80, abs=0.01)
    assert finding.title == "The device is idle 80% of a step because the host is too slow"
    assert finding.evidence["to"] - finding.evidence["from"] == 80_000


def test_a_host_that_keeps_up() -> None:
    assert finding_of(one_after_the_other(kernel_us=98, every_us=100).trace(), "host-bound") is None


def test_a_pause_outside_of_steps_is_no_idle_device() -> None:
    program = one_after_the_other(kernel_us=98, every_us=100)
    program.launch(50 * STEPS * LENGTH, "sgemm", 98)
    assert finding_of(program.trace(), "host-bound") is None


def with_item(every_step: bool) -> Trace:
    """Compute for a while, read the loss, and only then go on: nothing is queued meanwhile."""
    program = Program()
    for step in range(STEPS):
        at = step * LENGTH
        end = program.launch(at, "sgemm", 6_000)
        if every_step or step == 0:
            program.read_back(at + 100, end + 10)
            at = end + 2_000  # what the host does before it launches more
        program.launch(at + 200, "sgemm", 1_500, delay=max(5, end - at))
    return program.trace()


def test_a_number_that_is_read_back_in_every_step() -> None:
    trace = with_item(every_step=True)
    finding = finding_of(trace, "waiting-copies")
    assert finding is not None
    assert finding.title.startswith("The host waits for the device ")
    assert "aten::_local_scalar_dense" in finding.text
    assert finding.evidence["q"] == "aten::_local_scalar_dense"
    assert finding.share == pytest.approx(0.22, abs=0.01)  # 2.2 ms of 10 ms a step
    assert ".item()" in finding.fix


def test_a_number_that_is_read_back_now_and_then() -> None:
    assert finding_of(with_item(every_step=False), "waiting-copies") is None


def test_masks_that_are_waited_for_are_no_tiny_kernels() -> None:
    program = Program()
    for at in range(0, STEPS * LENGTH - 60, 60):
        program.select(at, at + 50)
    first, *others = find_problems(program.trace())
    assert first.id == "waiting-copies"
    assert "Mostly in aten::nonzero" in first.text
    assert "torch.where" in first.fix
    assert "host-bound" not in {other.id for other in others}


@pytest.mark.parametrize(("length_us", "is_found"), [(3, True), (40, False)])
def test_masses_of_tiny_kernels(length_us: int, is_found: bool) -> None:
    trace = one_after_the_other(length_us, every_us=50, kernel="elementwise_kernel").trace()
    finding = finding_of(trace, "tiny-kernels")
    assert (finding is not None) == is_found
    if finding is not None:
        assert finding.title == "100% of the kernels take less than 5.00 µs"
        assert "(200 per step)" in finding.text
        assert "most are launched by aten::mm" in finding.text


def test_float32_products_on_a_device_with_tensor_cores() -> None:
    program = one_after_the_other(98, 100, "volta_sgemm_128x64_nn")
    finding = finding_of(program.trace(devices=(V100,)), "float32-products")
    assert finding is not None
    assert finding.severity is Severity.HIGH
    assert "float16" in finding.fix  # TF32 came later
    assert finding.evidence["q"] == "volta_sgemm_128x64_nn"


def test_products_on_tensor_cores_and_devices_that_have_none() -> None:
    plain, fast = "sgemm_128x64_nn", "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
    of_fast = one_after_the_other(98, 100, fast).trace(devices=(V100,))
    assert finding_of(of_fast, "float32-products") is None
    of_old = one_after_the_other(98, 100, plain).trace(devices=(P100,))
    assert finding_of(of_old, "float32-products") is None


@pytest.mark.parametrize(
    "kernel",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)",
        "void dpsk::ep::internode::combine<true, __nv_bfloat16>(__nv_bfloat16*, int)",
        "nvshmemi_transfer_rma",
        "void vllm::cross_device_reduce_1stage<__half, 4>(RankData*)",
    ],
)
def test_communication_that_nothing_hides(kernel: str) -> None:
    program = Program()
    for step in range(STEPS):
        end = program.launch(step * LENGTH, "ampere_bf16_s16816gemm", 4_000)
        program.launch(step * LENGTH + 10, kernel, 5_500, delay=end - step * LENGTH - 10)
    (finding, *_) = find_problems(program.trace())
    assert finding.id == "exposed-communication"
    assert finding.saves_ns == pytest.approx(5_500_000, rel=0.01)
    assert finding.share == pytest.approx(0.55, abs=0.01)
    assert "0% of the communication is hidden" in finding.text


def test_communication_beside_computation() -> None:
    program = Program()
    for step in range(STEPS):
        at = step * LENGTH
        program.launch(at, "ampere_bf16_s16816gemm", 9_800)
        number = len(program.calls)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        program.calls += [
            Call("cudaLaunchKernel", at + 10, at + 15, "cuda_runtime", correlation=number),
            Call(name, at + 1_000, at + 9_000, "kernel", DEVICE - 1, correlation=number),
        ]
    assert finding_of(program.trace(), "exposed-communication") is None


def test_a_reduction_inside_of_a_block_is_no_communication() -> None:
    kernel = "void LayerNormBlock<BlockAllReduce<float>>(float*)"
    assert finding_of(one_after_the_other(98, 100, kernel).trace(), "exposed-communication") is None


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "pin_memory"),
        ("Memcpy HtoD (Pinned -> Device)", "while this one is computed"),
        ("Memcpy DtoH (Device -> Pageable)", "Keep results on the device"),
    ],
)
def test_copies_that_nothing_hides(name: str, advice: str) -> None:
    program = Program()
    for step in range(STEPS):
        program.copy(step * LENGTH, 5_000, name)
        program.launch(step * LENGTH + 20, "ampere_bf16_s16816gemm", 4_900, delay=5_000)
    finding = finding_of(program.trace(), "exposed-copies")
    assert finding is not None
    assert finding.share == pytest.approx(0.5, abs=0.01)
    assert name.removeprefix("Memcpy ") in finding.title
    assert advice in finding.fix


def test_memory_from_the_driver_in_every_step() -> None:
    program = Program()
    for step in range(STEPS):
        at = step * LENGTH
        program.launch(at, "ampere_bf16_s16816gemm", 4_000)
        program.call(at + 4_010, at + 7_010, "cudaFree")
        program.call(at + 7_010, at + 9_000, "cudaMalloc")
        program.launch(at + 9_000, "ampere_bf16_s16816gemm", 990)
    (finding, *_) = find_problems(program.trace())
    assert finding.id == "driver-allocations"
    assert finding.share == pytest.approx(0.5, abs=0.01)
    assert "empty_cache" in finding.fix


def in_a_row(names: list[str], length: int) -> Program:
    """Queue the same kernels in every step, without a gap."""
    program = Program()
    for step in range(STEPS):
        at = end = step * LENGTH
        for number, name in enumerate(names):
            begin = at + 6 * number
            end = program.launch(begin, name, length, delay=max(end - begin, 5))
    return program


GEMM = "ampere_bf16_s16816gemm"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, 10>(float*)"


def test_a_chain_of_elementwise_kernels() -> None:
    finding = finding_of(in_a_row([GEMM, *[ELEMENTWISE] * 8, GEMM], 990).trace(), "unfused-chains")
    assert finding is not None
    assert finding.saves_ns == pytest.approx(7 * 990_000, rel=0.02)
    single = in_a_row([GEMM, ELEMENTWISE] * 5, 990).trace()
    assert finding_of(single, "unfused-chains") is None


def test_attention_that_is_written_out() -> None:
    trace = in_a_row([GEMM, ELEMENTWISE, SOFTMAX, GEMM, "other", "other"], 1_600).trace()
    finding = finding_of(trace, "unfused-attention")
    assert finding is not None
    assert "scores of all pairs" in finding.text
    fused = in_a_row([GEMM, "flash_fwd_kernel<softmax>", GEMM, "other"], 2_400).trace()
    assert finding_of(fused, "unfused-attention") is None


def test_products_of_doubles() -> None:
    finding = finding_of(
        one_after_the_other(98, 100, "cutlass_80_tensorop_d884gemm").trace(), "float64"
    )
    assert finding is not None
    assert finding.severity is Severity.HIGH


def test_loading_kernels_for_the_first_time_is_no_idle_device() -> None:
    calls = [Call("cuModuleLoadData", 2_000, 200_000, "cuda_driver")]
    program = Program()
    for at in (*range(0, 2_000, 100), *range(200_000, 202_000, 100)):
        program.launch(at, "gemm", 95)
    trace = trace_of_calls([*calls, *program.calls], end_ns=202_000_000)
    assert finding_of(trace, "host-bound") is None
    without = trace_of_calls(program.calls, end_ns=202_000_000)
    assert finding_of(without, "host-bound") is not None


def test_a_device_that_waits_for_the_first_kernel_of_a_step() -> None:
    program = Program()
    for step in range(STEPS):
        program.launch(step * LENGTH + 6_000, "gemm", 3_990)
    one = [Call("ProfilerStep#0", 0, LENGTH, "user_annotation"), *program.calls[:3]]
    finding = finding_of(trace_of_calls(one, end_ns=LENGTH * 1000), "host-bound")
    assert finding is not None
    assert finding.share == pytest.approx(0.6, abs=0.02)


def memory_trace(folder: Path, allocated: int, reserved: int) -> Trace:
    """Write what torch.profiler writes of memory, and read it."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 1, "dur": 9}
    ]
    for at, in_use in enumerate((10**9, allocated, 10**9), 2):
        args = {
            "Total Allocated": in_use,
            "Total Reserved": reserved,
            "Bytes": in_use,
            "Addr": 4096,
            "Device Id": 0,
            "Device Type": 1,
        }
        place = {"pid": 1, "tid": 1, "ts": at, "s": "t"}
        events.append({"ph": "i", "name": "[memory]", "args": args, **place})
    path = folder / "trace.json"
    whole = {"schemaVersion": 1, "deviceProperties": [V100], "traceEvents": events}
    path.write_text(json.dumps(whole), encoding="utf-8")
    return read_trace(path)


def test_memory_close_to_the_limit(tmp_path: Path) -> None:
    finding = finding_of(memory_trace(tmp_path, 29 * 10**9, 31 * 10**9), "memory-near-limit")
    assert finding is not None
    assert finding.title == "The memory of cuda:0 is 97% full"
    assert "28.9 GiB of the device's 29.8 GiB" in finding.text
    assert finding.evidence["page"] == "memory"
    assert finding.evidence["device"] == "cuda:0"


def test_memory_that_is_held_and_not_used(tmp_path: Path) -> None:
    finding = finding_of(memory_trace(tmp_path, 10 * 10**9, 20 * 10**9), "fragmentation")
    assert finding is not None
    assert finding.title == "50% of the memory held on cuda:0 was not in use"
    assert finding.severity is Severity.MEDIUM


def test_memory_with_room_and_in_use(tmp_path: Path) -> None:
    assert find_problems(memory_trace(tmp_path, 19 * 10**9, 20 * 10**9)) == []


# What is wrong with the programs of the samples.
PLANTED = {
    "cpu_stepscope": {"data-loading"},
    "cpu_training": {"data-loading"},
    "h200_language_model": set(),
    "h200_streams": {"float32-products", "waiting-copies"},
    "h200_training": {"data-loading"},
    "made_language_model": set(),
    "made_loader": {"data-loading"},
    "made_mtia": {"host-bound", "exposed-copies"},
    "made_nccl": set(),
    "made_rocm": {"exposed-copies"},
    "made_two_gpus": {"exposed-communication"},
    "made_xla": {"host-bound"},
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_in_samples_is_found(name: str) -> None:
    findings = find_problems(read_trace(sample_path(name)))
    assert {finding.id for finding in findings} == PLANTED[name]


@pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
def test_findings_in_samples_say_where_and_how_much(path: Path) -> None:
    findings = find_problems(read_trace(path))
    for finding in findings:
        assert finding.title and finding.text and finding.fix
        assert 0 <= finding.share <= 1
        assert finding.evidence["page"] in {"timeline", "memory"}
        json.dumps(finding.to_json())
        if finding.evidence["page"] == "timeline":
            assert finding.evidence["from"] <= finding.evidence["to"]
