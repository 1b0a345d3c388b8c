"""The kernels by name, who launched them, and whether they compute on tensor cores."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from device_reference import (
    busy,
    by_device,
    call_of,
    events_in,
    launching_op,
    length,
    trace_in,
    work_of,
)
from made_trace import Call, trace_of_calls
from sample_traces import ONE_RANK, json_events, sample_name, sample_path
from stepscope.analysis.device.kernels import UNKNOWN, kernel_table
from stepscope.analysis.device.math import TensorCores, uses_tensor_cores
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from pathlib import Path

GPU = ["10", "0", "0", "0"]


def launched(
    op: str, kernel: str, start: int, end: int, *, correlation: int, rest: str = ""
) -> list[Call]:
    return [
        Call(op, start - 5, start - 1),
        Call("cudaLaunchKernel", start - 4, start - 2, "cuda_runtime", correlation=correlation),
        Call(kernel, start, end, "kernel", 1, correlation=correlation, rest=rest),
    ]


def test_kernels_are_summed_by_name_the_longest_first() -> None:
    shape = '"grid": [8, 4, 1], "block": [128, 1, 1]'
    calls = [
        *launched("aten::add", "elementwise_kernel", 10, 12, correlation=1),
        *launched("aten::mm", "volta_h884gemm", 20, 50, correlation=2, rest=shape),
        *launched("aten::mul", "elementwise_kernel", 60, 68, correlation=3),
        *launched("aten::mm", "volta_h884gemm", 70, 80, correlation=4),
    ]
    rows = kernel_table(trace_of_calls(calls, pids=GPU))
    assert rows.name == ("volta_h884gemm", "elementwise_kernel")
    assert rows.count.tolist() == [2, 2]
    assert rows.total_ns.tolist() == [40_000, 10_000]
    assert rows.mean_ns.tolist() == [20_000, 5_000]
    assert rows.min_ns.tolist() == [10_000, 2_000]
    assert rows.max_ns.tolist() == [30_000, 8_000]
    assert rows.busy_share.tolist() == [0.8, 0.2]
    assert rows.grid == ("8,4,1", "")
    assert rows.block == ("128,1,1", "")
    assert rows.registers.tolist() == [UNKNOWN, UNKNOWN]
    assert rows.operator == ("aten::mm", "aten::mul")
    assert rows.operators.tolist() == [1, 2]
    assert rows.tensor_cores == ("yes", "no")


def test_a_trace_without_kernels() -> None:
    rows = kernel_table(trace_of_calls([Call("aten::mm", 0, 5)]))
    assert len(rows) == 0
    assert rows.to_polars().height == 0


@pytest.mark.parametrize(
    ("answer", "names"),
    {
        TensorCores.YES: [
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>",
            "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_tn",
            "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_exp_interior_nhwc_tn_v1",
            "turing_h1688gemm_256x128_ldg8_tn",
            "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
            "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN",
            "void paged_attention_ll4mi_QKV_mfma16_kernel<0>",
        ],
        TensorCores.NO: [
            "volta_sgemm_128x64_nn",
            "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw_simt",
            "volta_scudnn_128x64_relu_interior_nn_v1",
            "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>",
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
            "void layer_norm_grad_input_kernel<gamma>",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        ],
        TensorCores.UNKNOWN: ["triton_poi_fused_add_0", "attn_fwd", "my_gemm", ""],
    }.items(),
    ids=lambda value: value.value if isinstance(value, TensorCores) else "",
)
def test_tensor_cores_by_the_name(answer: TensorCores, names: list[str]) -> None:
    assert {name: uses_tensor_cores(name) for name in names} == dict.fromkeys(names, answer)


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_as_a_slow_sum_finds_it(path: Path) -> None:
    trace = trace_in(path)
    events = events_in(path)
    work = work_of(events, trace)
    kernels = [e for e in work if e.kind == SliceKind.KERNEL and e.name != "dma_request"]
    calls = call_of(events)
    durations: dict[str, list[int]] = defaultdict(list)
    behind: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for event in kernels:
        durations[event.name].append(event.end - event.start)
        call = calls.get(event.correlation)
        op = -1 if call is None else launching_op(trace, call)
        if op != -1:
            name = re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", trace.name_of(op))
            behind[event.name][name] += event.end - event.start
    rows = kernel_table(trace)
    assert sorted(rows.name) == sorted(durations)
    assert (rows.total_ns[:-1] >= rows.total_ns[1:]).all()
    whole = sum(length(busy(own)) for own in by_device(work).values())
    for i, name in enumerate(rows.name):
        own = durations[name]
        numbers = [rows.count[i], rows.total_ns[i], rows.min_ns[i], rows.max_ns[i]]
        assert [int(n) for n in numbers] == [len(own), sum(own), min(own), max(own)]
        assert rows.busy_share[i] == pytest.approx(sum(own) / whole)
        if behind[name]:
            assert behind[name][rows.operator[i]] == max(behind[name].values())
        assert rows.operators[i] == len(behind[name])


@pytest.mark.parametrize("name", ["made_language_model", "h200_language_model"])
def test_shape_and_memory_where_the_trace_tells(name: str) -> None:
    path = sample_path(name)
    rows = kernel_table(trace_in(path)).to_polars().row(0, named=True)
    first_match = next(
        event["args"] for event in json_events(path) if event["name"] == rows["name"]
    )
    assert rows["grid"] == ",".join(map(str, first_match["grid"]))
    assert rows["block"] == ",".join(map(str, first_match["block"]))
    assert rows["registers"] == first_match["registers per thread"]
    assert rows["shared_memory_bytes"] == first_match["shared memory"]
    assert rows["operator"] == "aten::mm"
