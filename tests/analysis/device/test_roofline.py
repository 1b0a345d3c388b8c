"""How far operators are from what the device can do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis.device.peaks import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    TF32,
    best_peaks,
    keep_measured,
    peaks_of,
)
from stepscope.analysis.device.roofline import flops_utilisation, roofline
from stepscope.cli import main
from stepscope.cli.base.device import device_text

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

H200 = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "totalGlobalMem": 141 * 10**9}
DEVICE = 3
GEMM = "nvjet_tst_128x256_64x6_1x2_h_bz_coopA_NNT"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>(int)"


def shapes(*dims: list[int], kind: str = "c10::BFloat16") -> str:
    return f'"Input Dims": {json.dumps(dims)}, "Input type": {json.dumps([kind] * len(dims))}'


@pytest.fixture(autouse=True)
def no_measured_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Program:
    """Operators that launch one kernel each, in a marked step of 10 ms; times in µs."""

    def __init__(self) -> None:
        self.calls = [Call("ProfilerStep#0", 0, 10_000, "user_annotation")]

    def run(self, operator: str, rest: str, kernel: str, length: int) -> None:
        number, at = len(self.calls), 10 * len(self.calls)
        self.calls += [
            Call(operator, at, at + 8, rest=rest),
            Call("cudaLaunchKernel", at + 1, at + 5, "cuda_runtime", correlation=number),
            Call(kernel, at + 6, at + 6 + length, "kernel", DEVICE, correlation=number),
        ]

    def trace(self, **info: Any) -> Trace:
        info = {"devices": (H200,), "end_ns": 10_000_000, **info}
        return trace_of_calls(self.calls, **info)


def test_a_product_against_the_peak_of_its_type() -> None:
    program = Program()
    program.run("aten::mm", shapes([8192, 8192], [8192, 8192]), GEMM, 1_380)
    rows = roofline(program.trace())
    flops = 2 * 8192**3
    assert rows.operator == ("aten::mm",)
    assert rows.dtype == (BFLOAT16,)
    assert rows.shapes == ("8192x8192, 8192x8192",)
    assert rows.flops.tolist() == [flops]
    assert rows.bytes.tolist() == [3 * 8192**2 * 2]
    assert rows.share[0] == pytest.approx(flops / 989.4e12 / 1_380e-6, rel=1e-6)
    assert rows.compute_ns[0] > rows.memory_ns[0]
    assert rows.saved_ns[0] == 0  # it runs at 80 % of its roof


def test_a_product_into_a_given_tensor_writes_it_once() -> None:
    program = Program()
    program.run("aten::mm", shapes([512, 64], [64, 512], [512, 512]), GEMM, 100)
    assert roofline(program.trace()).bytes.tolist() == [2 * (2 * 512 * 64 + 512 * 512)]


def test_a_sum_against_the_peak_of_the_memory() -> None:
    program = Program()
    program.run("aten::add", shapes([2**28], [2**28]), ELEMENTWISE, 1_000)
    rows = roofline(program.trace())
    assert rows.bytes.tolist() == [3 * 2**28 * 2]
    assert rows.memory_ns[0] > rows.compute_ns[0]
    assert rows.share[0] == pytest.approx(3 * 2**29 / 4.8e12 / 1e-3, rel=1e-6)
    assert rows.saved_ns[0] == pytest.approx(1e6 - 3 * 2**29 / 4.8e12 * 1e9 / 0.8)


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [("ampere_sgemm_128x64_nn", FLOAT32), ("sm80_xmma_gemm_f32f32_tf32f32_f32", TF32)],
)
def test_float32_on_tensor_cores_or_not(kernel: str, dtype: str) -> None:
    program = Program()
    program.run("aten::mm", shapes([64, 64], [64, 64], kind="float"), kernel, 10)
    assert roofline(program.trace()).dtype == (dtype,)


def test_a_convolution_counts_under_the_operator_that_has_the_formula() -> None:
    program = Program()
    rest = (
        '"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3], [], [], [], [], []], '
        '"Input type": ["float", "float", "", "", "", "", "Scalar"], '
        '"Concrete Inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"]'
    )
    program.run("aten::conv2d", rest, "implicit_gemm", 50)
    rows = roofline(program.trace())
    out = 8 * 16 * 32 * 32
    assert rows.flops.tolist() == [2 * out * 27]
    assert rows.bytes.tolist() == [4 * (8 * 3 * 32 * 32 + 16 * 27 + out)]


def test_an_operator_that_reads_a_few_rows_of_a_table() -> None:
    program = Program()
    program.run("aten::index", shapes([2**20, 4096], [8]), "index_elementwise", 10)
    program.run("aten::embedding", shapes([2**20, 4096], [8]), "indexSelect", 9)
    rows = roofline(program.trace())
    assert rows.bytes.tolist() == [0, 2 * 8 * 4096 * 2 + 8 * 2]
    assert rows.roof_ns[0] == 0
    assert "aten::index " in device_text(program.trace(), "roofline", 10)


def test_what_a_cache_holds_is_read_faster_than_the_memory() -> None:
    program = Program()
    program.run("aten::add", shapes([2**20], [2**20]), ELEMENTWISE, 1)  # 6.3 TB/s of 4.8
    rows = roofline(program.trace())
    assert rows.bytes.tolist() == [3 * 2**21]
    assert rows.share.tolist() == [1.0]


def test_a_tiny_kernel_takes_its_time() -> None:
    program = Program()
    program.run("aten::add", shapes([2], [2]), ELEMENTWISE, 5)
    rows = roofline(program.trace())
    assert rows.roof_ns[0] < 1
    assert (rows.reachable_ns[0], rows.saved_ns[0]) == (2_000, 3_000)


def test_a_generated_kernel_has_its_results_among_its_arguments() -> None:
    program = Program()
    rest = shapes([2**20], [2**20], [2**20])
    program.run("triton_poi_fused_add_mul_0", rest, "triton_poi_fused_add_mul_0", 20)
    program.run("triton_tem_fused_mm_1", rest, "triton_tem_fused_mm_1", 10)
    assert roofline(program.trace()).bytes.tolist() == [3 * 2**21, 0]


def test_operators_of_unknown_purpose_have_no_roof() -> None:
    program = Program()
    program.run("vllm::moe_forward", shapes([888, 3072], [888, 128]), "fused_moe", 6_000)
    rows = roofline(program.trace())
    assert rows.bytes.tolist() == [0]
    assert rows.saved_ns.tolist() == [0]


def test_a_product_of_two_kernels_counts_once() -> None:
    program = Program()
    program.run("aten::mm", shapes([64, 64], [64, 64], kind="float"), "sm80_xmma_gemm_tf32f32", 10)
    program.calls += [
        Call("cudaLaunchKernel", 16, 17, "cuda_runtime", correlation=99),
        Call("void splitKreduce_kernel<32>(int)", 30, 40, "kernel", DEVICE, correlation=99),
    ]
    rows = roofline(program.trace())
    assert (rows.dtype, rows.flops.tolist(), rows.device_ns.tolist()) == (
        (TF32,),
        [2 * 64**3],
        [20_000],
    )


def test_copies_within_the_device() -> None:
    program = Program()
    program.run("aten::copy_", shapes([2**29], [2**29]), "Memcpy DtoD (Device -> Device)", 500)
    program.calls[-1] = replace(program.calls[-1], category="gpu_memcpy")
    program.run("aten::copy_", shapes([2**20], [2**20]), "Memcpy HtoD (Pinned -> Device)", 90)
    program.calls[-1] = replace(program.calls[-1], category="gpu_memcpy")
    rows = roofline(program.trace())
    assert rows.operator == ("aten::copy_",)
    assert rows.bytes.tolist() == [2 * 2**30]
    assert rows.bytes_per_second[0] == pytest.approx(2**31 / 500e-6)


def test_without_a_known_device_there_is_no_roof() -> None:
    program = Program()
    program.run("aten::mm", shapes([64, 64], [64, 64]), GEMM, 10)
    trace = program.trace(devices=())
    assert not roofline(trace).roof_ns.any()
    assert flops_utilisation(trace) is None
    assert "there is no roof" in device_text(trace, "roofline", 10)


def test_without_shapes_there_is_nothing_to_say() -> None:
    program = Program()
    program.run("aten::mm", "", GEMM, 10)
    assert len(roofline(program.trace()).operator) == 0
    assert "record_shapes" in device_text(program.trace(), "roofline", 10)


def test_the_utilisation_of_a_step_and_the_table() -> None:
    program = Program()
    program.run("aten::mm", shapes([8192, 8192], [8192, 8192]), GEMM, 1_380)
    program.run("aten::add", shapes([2**28], [2**28]), ELEMENTWISE, 1_000)
    trace = program.trace()
    assert flops_utilisation(trace) == pytest.approx((2 * 8192**3 + 2**28) / 0.01 / 989.4e12)
    text = device_text(trace, "roofline", 10)
    assert "Model FLOP utilisation of the steps: 11.1%" in text
    assert "compute" in text and "memory" in text


def test_what_each_device_can_do_falls_with_the_width_of_the_type() -> None:
    for name in (
        "NVIDIA H100 80GB HBM3",
        "NVIDIA A100-SXM4-80GB",
        "AMD Instinct MI300X",
        "Tesla T4",
    ):
        peaks = peaks_of(name)
        assert peaks is not None
        assert peaks.source
        order = [
            kind
            for kind in ("float8", "float16", "tf32", "float32")
            if kind in peaks.flops_per_second
        ]
        assert (np.diff([peaks.flops_per_second[kind] for kind in order]) <= 0).all()
    assert peaks_of("ARTEMIS") is None


class TestMeasured:
    @pytest.fixture(autouse=True)
    def folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path / "kept"))
        return tmp_path / "kept"

    def test_measured_peaks_come_before_the_data_sheet(self) -> None:
        program = Program()
        program.run("aten::mm", shapes([8192, 8192], [8192, 8192]), GEMM, 1_380)
        keep_measured("NVIDIA H200", {FLOAT16: 800e12}, 4.2e12, "2026-11-16")
        trace = program.trace()
        assert roofline(trace).share[0] == pytest.approx(2 * 8192**3 / 800e12 / 1_380e-6)
        text = device_text(trace, "roofline", 10)
        assert "4.20 TB/s memory (measured by stepscope device-peaks, 2026-11-16)" in text
        assert "66.9 TFLOP/s float32" in text  # what was not measured is the data sheet's
        # The utilisation of a model is by what the maker says, as everybody counts it.
        assert flops_utilisation(trace) == pytest.approx(2 * 8192**3 / 0.01 / 989.4e12)

    def test_an_unknown_device_may_be_measured(self) -> None:
        assert best_peaks("Chip 1") is None
        keep_measured("Chip 1", {FLOAT16: 1e12}, 1e11, "")
        keep_measured("Chip 2", {FLOAT16: 2e12}, 1e11, "")
        result = best_peaks("Chip 1")
        assert result is not None
        assert (result.flops_in(BFLOAT16), result.bytes_per_second) == (1e12, 1e11)

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", '{"Chip 1": {"flops_per_second": [], "bytes_per_second": -1}}']
    )
    def test_a_file_that_somebody_broke(self, folder: Path, text: str) -> None:
        folder.mkdir()
        (folder / "device-peaks.json").write_text(text)
        assert best_peaks("Chip 1") is None


def test_without_a_gpu_the_verb_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert main(["device-peaks"]) == 2
    output = capsys.readouterr()
    assert "found no GPU" in output.err
    assert not output.out
