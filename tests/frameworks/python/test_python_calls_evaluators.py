"""The timeline of Python calls beside others who evaluate frames, as torch.compile does."""

from __future__ import annotations

from typing import Any

import pytest

from python_frames import (
    DEFAULT_EVALUATOR,
    LEN,
    MONITORED,
    calls_below,
    calls_recorded,
    count,
    evaluates,
    evaluator,
    in_library,
    named,
    set_evaluator,
)
from recording import trace_of
from stepscope.frameworks.python.calls import PythonCalls
from stepscope.record.session import Session

pytestmark = pytest.mark.usefixtures("no_calls_left_on")


@evaluates
def test_who_takes_our_place_does_not_end_the_recording() -> None:
    library = in_library("def library(function):\n    len(())\n    function()")

    def work() -> None:
        library(displace)
        library(leaf)

    def displace() -> None:
        set_evaluator(DEFAULT_EVALUATOR)
        leaf()

    def leaf() -> None:
        len(())

    with calls_recorded() as session:
        work()
    trace = trace_of(session)
    name = "/opt/site-packages/library.py(1): library"
    of_interest = (name, LEN, named(leaf), named(displace))
    assert [pair for pair in calls_below(trace, named(work)) if pair[0] in of_interest] == [
        (name, named(work)),
        (named(displace), name),
        (named(leaf), named(displace)),
        (LEN, named(leaf)),
        (name, named(work)),
        (named(leaf), name),
        (LEN, named(leaf)),
    ]


@evaluates
def test_who_puts_us_back_too_late_does_no_harm() -> None:
    def work() -> None: ...

    with calls_recorded():
        ours = evaluator()
        set_evaluator(DEFAULT_EVALUATOR)
    set_evaluator(ours)
    work()
    assert evaluator() == DEFAULT_EVALUATOR
    with calls_recorded() as session:
        assert evaluator() == ours
        work()
    assert count(trace_of(session), work) == 1


@pytest.mark.parametrize("starts", ["before", "inside"])
@pytest.mark.parametrize("stops", ["inside", "after"])
def test_beside_torch_compile(starts: str, stops: str) -> None:
    torch = pytest.importorskip("torch")
    dynamo = pytest.importorskip("torch._dynamo")
    tensor = torch.ones(2)
    session = Session([PythonCalls()])

    def compiled(x: Any) -> Any:
        return leaf(x) + 1

    def leaf(x: Any) -> Any:
        return x.exp()

    def work() -> None:
        assert MONITORED or evaluator() != DEFAULT_EVALUATOR
        if starts == "inside":
            session.start()
        function(tensor)
        leaf(tensor)
        if stops == "inside":
            session.stop()
        leaf(tensor)

    function = torch.compile(compiled, backend="eager")
    function(tensor)
    if starts == "before":
        session.start()
    dynamo.run(work)()  # takes what was compiled, and is there for all calls inside
    leaf(tensor)
    if stops == "after":
        session.stop()
    leaf(tensor)
    trace = trace_of(session)
    assert count(trace, leaf) == {"inside": 1, "after": 3}[stops]
    assert count(trace, compiled) >= 1
    leaf(tensor)
    assert MONITORED or evaluator() == DEFAULT_EVALUATOR
    with calls_recorded() as again:
        leaf(tensor)
    assert count(trace_of(again), leaf) == 1
