"""Kernels that a faster type or a fused one would replace."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.base.tree import has_text, ids_where
from stepscope.analysis.device.math import TensorCores, uses_tensor_cores
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.launched import device_finding, launching_lines
from stepscope.analysis.findings.model import DETECTORS, Finding
from stepscope.analysis.findings.spots import share_words
from stepscope.analysis.work.work import WorkKind
from stepscope.units import count_text, duration_text

# Share of the device's busy time in products that a smaller type does many times faster.
MIN_PRODUCTS_SHARE = 0.10
# Tensor cores save at least this much of a float32 product, float32 of one in float64.
FASTER_FLOAT32, FASTER_FLOAT64 = 0.75, 0.9
# Fusing elementwise kernels pays if so many follow each other and take this much of a step.
MIN_CHAIN, MIN_CHAINS_SHARE = 3, 0.20
# Share of a step in unfused attention, and what a fused one saves of it.
MIN_ATTENTION_SHARE, FASTER_ATTENTION = 0.15, 0.6

_FLOAT32_PRODUCT = re.compile(
    r"(?<![a-z])sgemm|scudnn|simt_sgemm|_ffma_|convolve_sgemm|winograd\w*fp32|gemmSN", re.IGNORECASE
)
# AMD's matrix cores multiply float32 too, an eighth as fast as bfloat16. Tensile's names have the
# type after the two layouts: SB, S_B_Bias, DB.
_FLOAT32_ON_AMD = re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_S(B|_B|_MX)?_|igemm_\w*_fp32")
_FLOAT64_PRODUCT = re.compile(
    r"(?<![a-z])dgemm|_d884|_f64f64|<double.*gemm|gemm.*<double"
    r"|^Cijk_[A-Za-z]+_[A-Za-z]+_D(B|_B)?_",
    re.I,
)
_NAMED_GENERATIONS = (("volta_", 7), ("turing_", 7), ("ampere_", 8), ("sm80_", 8), ("hopper_", 9),
                      ("sm90_", 9), ("sm100_", 10))  # fmt: skip
_ELEMENTWISE = re.compile(r"elementwise_kernel|_ElementWise|vectorized_gather|ew_kernel", re.I)
_SOFTMAX = re.compile(r"softmax", re.IGNORECASE)
_PRODUCT = re.compile(r"gemm|cutlass|cublas|nvjet|matmul|bmm|Cijk_", re.IGNORECASE)
_FUSED_ATTENTION = re.compile(r"flash|fmha|attention|attn", re.IGNORECASE)
_FIRST_WITH_TENSOR_CORES, _FIRST_WITH_TF32 = 7, 8  # compute capability, its major number
_LONGEST_BETWEEN = 6  # kernels between the two products of an attention: scale, mask, softmax, ...


class _Slow(NamedTuple):
    """How products in a slow type are reported."""

    identity: str
    is_slow: Callable[[str], object]
    faster: float  # what another type saves of their time
    takes: str
    sentence: str
    fix: str


@DETECTORS.register
def float32_products(facts: Facts) -> Finding | None:
    """Find matrix products and convolutions in float32 on a device with tensor cores."""
    generation = 0 if facts.is_amd else _generation(facts)
    if generation and generation < _FIRST_WITH_TENSOR_CORES:
        return None
    return _slow_products(
        facts,
        _Slow(
            "float32-products",
            _is_float32_product,
            FASTER_FLOAT32,
            "Float32 matrix products and convolutions take"
            if facts.is_amd
            else "Float32 matrix products and convolutions without tensor cores take",
            "multiplied in full float32 for {}."
            if facts.is_amd
            else "multiplied in full float32 for {}, without using tensor cores.",
            _precision_fix(generation, on_amd=facts.is_amd),
        ),
    )


@DETECTORS.register
def float64_products(facts: Facts) -> Finding | None:
    """Find matrix products in float64."""
    return _slow_products(
        facts,
        _Slow(
            "float64",
            _FLOAT64_PRODUCT.search,
            FASTER_FLOAT64,
            "Float64 matrix products take",
            "multiplied float64 matrices for {}.",
            "Make the tensors float32, or bfloat16, where they are created: NumPy's arrays and "
            "Python's numbers are float64.",
        ),
    )


@DETECTORS.register
def unfused_chains(facts: Facts) -> Finding | None:
    """Find elementwise kernels in a row, each of which reads and writes all of its tensor."""
    kind = _kinds(facts, {1: _ELEMENTWISE})
    chain = np.zeros(len(kind), np.bool_)
    left_share = np.zeros(len(kind))
    for order in _by_stream(facts):
        starts = np.flatnonzero(np.diff(kind[order] == 1, prepend=False, append=False))
        for begin, end in starts.reshape(-1, 2).tolist():
            if end - begin >= MIN_CHAIN:
                chain[order[begin:end]] = True
                left_share[order[begin:end]] = 1 / (end - begin)
    each_ns = facts.each_ns(chain)
    saves_ns = each_ns * (1 - float(left_share[chain].mean())) if chain.any() else 0.0
    if saves_ns < MIN_CHAINS_SHARE * max(float(facts.device_parts_ns.sum()), 1):
        return None
    places = launching_lines(facts, chain)
    share = each_ns / float(facts.device_parts_ns.sum())
    compiler = facts.advise(Remedy.COMPILER, "")
    fused = f"{compiler} fuses them" if compiler else "fuse them"
    return device_finding(
        facts,
        "unfused-chains",
        title=f"Chains of elementwise kernels take {share_words(share, facts.ledger.unit)}",
        text=f"{count_text(int(chain.sum()), 'kernel')} run in chains of {MIN_CHAIN} or more, and "
        "each reads and writes its whole tensor: memory bandwidth is the limit.",
        fix=f"Let one kernel do what several do: {fused}; fused functions (GELU, "
        "dropout-add-norm, a fused optimizer) need no compiler.",
        saves_ns=saves_ns,
        evidence=facts.on_timeline(facts.longest(facts.work.rows[chain])),
        places=places,
    )


@DETECTORS.register
def unfused_attention(facts: Facts) -> Finding | None:
    """Find unfused attention: a product, a softmax over all pairs, a product."""
    kind = _kinds(facts, {1: _SOFTMAX, 2: _PRODUCT})
    names = facts.trace.slices.name[facts.work.rows]
    kind[has_text(names, facts.trace.strings, _FUSED_ATTENTION.search)] = 0
    which = np.zeros(len(kind), np.bool_)
    for order in _by_stream(facts):
        products = np.flatnonzero(kind[order] == 2)
        softmax = np.flatnonzero(kind[order] == 1)
        after = np.searchsorted(products, softmax)
        inner = (after > 0) & (after < len(products))
        for begin, end in zip(
            products[after[inner] - 1].tolist(), products[after[inner]].tolist(), strict=True
        ):
            if end - begin - 1 <= _LONGEST_BETWEEN:
                which[order[begin : end + 1]] = True
    each_ns = facts.each_ns(which)
    unit_ns = max(float(facts.device_parts_ns.sum()), 1)
    if each_ns < MIN_ATTENTION_SHARE * unit_ns:
        return None
    share = share_words(each_ns / unit_ns, facts.ledger.unit)
    return device_finding(
        facts,
        "unfused-attention",
        title=f"Unfused attention takes {share}",
        text=f"{count_text(int(which.sum()), 'kernel')} compute products with a softmax between "
        "them, and write the scores of all pairs to memory and read them again.",
        fix=facts.advise(
            Remedy.FUSED_ATTENTION,
            "Use a fused attention kernel: it keeps the scores out of memory.",
        ),
        saves_ns=FASTER_ATTENTION * each_ns,
        evidence=facts.on_timeline(facts.longest(facts.work.rows[which])),
        places=launching_lines(facts, which),
    )


def _slow_products(facts: Facts, what: _Slow) -> Finding | None:
    work = facts.work
    names = facts.trace.slices.name[work.rows]
    slow = (work.kind == WorkKind.COMPUTE) & has_text(names, facts.trace.strings, what.is_slow)
    busy_ns = int(work.duration_ns.sum())
    spent_ns = int(work.duration_ns[slow].sum())
    if not slow.any() or spent_ns < MIN_PRODUCTS_SHARE * busy_ns:
        return None
    share = spent_ns / busy_ns
    return device_finding(
        facts,
        what.identity,
        title=f"{what.takes} {share:.0%} of the device's time",
        text=f"{count_text(int(slow.sum()), 'kernel')} "
        + what.sentence.format(f"{duration_text(spent_ns)} in total"),
        fix=what.fix,
        saves_ns=what.faster * facts.each_ns(slow),
        evidence=facts.on_timeline(facts.longest(work.rows[slow])),
        places=launching_lines(facts, slow),
    )


def _kinds(facts: Facts, kinds: dict[int, re.Pattern[str]]) -> NDArray[np.int8]:
    """Return the number of the first pattern that each piece's name matches, else 0."""
    work = facts.work
    names = facts.trace.slices.name[work.rows]
    kind_of_work = np.zeros(len(work), np.int8)
    for number, pattern in kinds.items():
        matches = has_text(names, facts.trace.strings, pattern.search)
        kind_of_work[matches & (kind_of_work == 0)] = number
    kind_of_work[work.kind != WorkKind.COMPUTE] = 0
    return kind_of_work


def _by_stream(facts: Facts) -> list[NDArray[np.int64]]:
    """Return the kernels of each stream in order."""
    work = facts.work
    computes = work.kind == WorkKind.COMPUTE
    return [np.flatnonzero(computes & (work.stream == stream)) for stream in np.unique(work.stream)]


def _is_float32_product(name: str) -> bool:
    if _FLOAT32_ON_AMD.search(name) is not None:
        return True
    return (
        _FLOAT32_PRODUCT.search(name) is not None and uses_tensor_cores(name) is not TensorCores.YES
    )


def _precision_fix(generation: int, *, on_amd: bool) -> str:
    if on_amd:
        return (
            'Use torch.autocast("cuda", dtype=torch.bfloat16) (ROCm devices are also called '
            '"cuda"), if the model\'s accuracy allows it.'
        )
    if generation and generation < _FIRST_WITH_TF32:
        return (
            'Use torch.autocast("cuda", dtype=torch.float16) with a GradScaler, if the model\'s '
            "accuracy allows it."
        )
    return (
        'Use torch.set_float32_matmul_precision("high") (TF32; for convolutions '
        "torch.backends.cudnn.allow_tf32), or "
        'torch.autocast("cuda", dtype=torch.bfloat16), if the device has tensor cores for it.'
    )


def _generation(facts: Facts) -> int:
    """Return the major compute capability of the devices, 0 if unknown."""
    majors = (device.compute_capability[0] for device in facts.trace.devices())
    first_major = next((major for major in majors if major), 0)
    if first_major:
        return first_major
    # Early Kinetos do not describe devices; the libraries' kernels are made for a generation.
    strings, names = facts.trace.strings, facts.trace.slices.name[facts.work.rows]
    for word, major in _NAMED_GENERATIONS:
        if len(ids_where(names, strings, partial(_has, word))):
            return major
    return 0


def _has(word: str, name: str) -> bool:
    return name.startswith(word) or f" {word}" in name
