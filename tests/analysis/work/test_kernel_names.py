"""A kernel has one name wherever people read it."""

from __future__ import annotations

import pytest

from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import is_communication
from stepscope.text.device import kernel_name_text

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
MANGLED = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
    "St5arrayIPcLm3EEEEviT0_T1_"
)


@pytest.mark.parametrize("name", [ADD, MANGLED, f"{MANGLED}.kd"])
def test_a_symbol_and_its_c_plus_plus_name_are_shown_alike(name: str) -> None:
    assert kernel_name(name) == "vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >"
    assert kernel_name_text(name) == kernel_name(name)


@pytest.mark.parametrize(
    "name", ["Memcpy HtoD (Pinned -> Device)", "triton_poi_fused_add_0", "_Zzz", "_Z", ""]
)
def test_what_is_no_c_plus_plus_name_stays(name: str) -> None:
    assert kernel_name(name) == name


def test_a_mangled_kernel_of_a_collective_communicates() -> None:
    assert is_communication("_ZN7deep_ep9internode8dispatchILb0EEEvPv")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELb1EEEvPT0_PT_Pfi",
            "aiter::add_rmsnorm_quant_kernel<__bf16, __bf16, 256, true>",
        ),
        (
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_E",
            "sgl_hip::activation::act_and_mul_kernel<...>",
        ),
        ("_Z99999999999999999999x", "_Z99999999999999999999x"),
        ("_ZN9999x", "_ZN9999x"),
    ],
)
def test_a_symbol_that_is_newer_than_the_c_plus_plus_library(symbol: str, name: str) -> None:
    assert kernel_name(symbol) == name
