"""Advice speaks the language of the framework whose operators a program runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis.base.advice import advise
from stepscope.analysis.base.remedies import ADVICE, Advice, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.trace.model import Trace

TORCHS, PADDLES = Call("aten::mm", 0, 5), Call("matmul", 0, 5)
# Of these, a detector has words for a program of any framework.
WITH_DEFAULT = frozenset(
    {
        *(Remedy.COMPILER, Remedy.FEWER_LAUNCHES, Remedy.FUSED_ATTENTION),
        *(Remedy.BUCKETS, Remedy.PINNED_MEMORY),
        *(Remedy.BACKGROUND, Remedy.LOADER, Remedy.LOADER_PREFIX, Remedy.LESS_KEPT),
    }
)
SAME_IN_BOTH = frozenset({Remedy.BACKGROUND, Remedy.LOADER, Remedy.LESS_KEPT})
OF_LOOPS = frozenset({Remedy.LOADER_PREFIX})  # only a library that has the loop has words


def made(*versions: str, call: Call = PADDLES) -> Trace:
    trace = trace_of_calls([call])
    return replace(trace, info=replace(trace.info, versions=dict.fromkeys(versions, "1.0")))


def speaker(trace: Trace) -> str:
    words = advise(trace, Remedy.FLOAT32)
    return words.removesuffix(".float32")


@pytest.mark.parametrize("remedy", [remedy for remedy in Remedy if remedy not in OF_LOOPS])
def test_every_remedy_has_words(remedy: Remedy) -> None:
    default = "anybody's" if remedy in WITH_DEFAULT else None
    torchs = advise(made("torch"), remedy, default)
    assert torchs != "anybody's"
    assert (torchs == advise(made("paddle"), remedy, default)) == (remedy in SAME_IN_BOTH)
    assert advise(made(), remedy, default) == (default or torchs)


def test_a_framework_without_words_takes_the_detectors() -> None:
    assert advise(made("paddle"), Remedy.COMPILER, "") == ""
    assert advise(made("jax"), Remedy.COMPILER, "") == ""
    assert advise(made("torch"), Remedy.COMPILER, "") == "torch.compile"


def test_who_speaks_where_several_are_imported() -> None:
    assert speaker(made("torch", "paddle", call=TORCHS)) == "torch"
    assert speaker(made("torch", "paddle", call=PADDLES)) == "paddle"
    assert speaker(made("jax", call=TORCHS)) == "torch"  # whoever recorded it


@pytest.fixture
def _acme() -> Iterator[None]:
    entry = ADVICE.register(lambda: Advice("acme", {Remedy.FLOAT32: "acme.float32"}))
    yield
    ADVICE.unregister(entry)


@pytest.mark.usefixtures("_acme")
def test_a_framework_from_outside_has_its_own_words() -> None:
    assert speaker(made("acme")) == "acme"
    assert speaker(made()) == "torch"
