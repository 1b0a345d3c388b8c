"""record_function in asyncio tasks and in threads: each keeps its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest

from recording import chain_of, manual_clock, parents, ranges_recorded, row_of, trace_of
from stepscope import Session, profile, record_function
from stepscope._native import advance_clock, recording

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session() -> Iterator[Session]:
    with ranges_recorded() as running:
        yield running
    assert not recording()


def test_ranges_of_interleaved_tasks_do_not_take_each_others_children() -> None:
    async def task(name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
        with record_function(name):
            other.set()
            await mine.wait()
            with record_function(f"in {name}"):
                await asyncio.sleep(0)
            other.set()

    async def both() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        await asyncio.gather(task("a", a, b), task("b", b, a))

    with ranges_recorded() as session:
        asyncio.run(both())
    assert sorted(parents(trace_of(session))) == [
        ("a", None), ("b", None), ("in a", "a"), ("in b", "b"),
    ]  # fmt: skip


def test_one_range_shared_by_interleaved_tasks() -> None:
    scope = record_function("shared")

    async def task(name: str, rounds: int) -> None:
        with scope:
            for _ in range(rounds):
                await asyncio.sleep(0)
            advance_clock(10)
            with record_function(name):
                advance_clock(1)

    async def all_of_them() -> None:
        await asyncio.gather(*(task(f"t{i}", i) for i in range(5)))

    with manual_clock(), ranges_recorded() as session:
        asyncio.run(all_of_them())
    trace = trace_of(session)
    own = [trace.slices.parent[row_of(trace, f"t{i}")] for i in range(5)]
    assert trace.slices.duration_ns[own].tolist() == [11, 11, 22, 33, 44]
    assert len(trace) == 10


def test_operators_in_tasks_nest_under_their_own_tasks_range() -> None:
    torch = pytest.importorskip("torch")
    one = torch.ones(1)
    operators = {"a": "neg", "b": "sign", "c": "exp"}

    async def task(name: str) -> None:
        with record_function(name):
            for _ in range(10):
                getattr(one, operators[name])()
                await asyncio.sleep(0)

    async def all_of_them() -> None:
        await asyncio.gather(*map(task, operators))

    with profile() as profiler, record_function("around"):
        asyncio.run(all_of_them())
        one.sin()
    trace = profiler.trace
    wanted = {f"aten::{op}": name for name, op in operators.items()}
    chains = [chain_of(trace, row) for row in range(len(trace)) if trace.name_of(row) in wanted]
    assert len(chains) == 30
    assert set(chains) == {(op, name, "around") for op, name in wanted.items()}
    assert chain_of(trace, row_of(trace, "aten::sin")) == ("aten::sin", "around")


@pytest.mark.xfail(reason="a task is known by its context", strict=True)
def test_a_context_of_its_own_inside_a_task_stays_in_that_task() -> None:
    async def task() -> None:
        with record_function("task"):
            contextvars.copy_context().run(step)

    def step() -> None:
        with record_function("step"):
            pass

    with ranges_recorded() as session:
        asyncio.run(task())
    assert parents(trace_of(session)) == [("task", None), ("step", "task")]


def test_a_callback_in_another_context_outside_any_loop_nests_as_usual(session: Session) -> None:
    with record_function("outer"):
        contextvars.copy_context().run(record_function("inner")(lambda: None))
    session.stop()
    assert parents(trace_of(session)) == [("outer", None), ("inner", "outer")]


def test_one_range_shared_by_threads_stays_with_each(session: Session) -> None:
    scope = record_function("shared")
    together = threading.Barrier(4)

    def work() -> None:
        with scope:
            together.wait()
            with record_function(threading.current_thread().name):
                together.wait()

    threads = [threading.Thread(target=work, name=f"t{i}") for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.stop()
    trace = trace_of(session)
    assert trace.slices.flags.tolist() == [0] * 8
    for thread in threads:
        row = row_of(trace, thread.name)
        assert chain_of(trace, row) == (thread.name, "shared")
        assert trace.slices.track[row] == trace.slices.track[trace.slices.parent[row]]


def test_who_entered_before_the_recording_does_not_end_another_threads_range() -> None:
    scope = record_function("shared")
    entered, go, rest = threading.Event(), threading.Event(), threading.Event()

    def early() -> None:
        with scope:
            entered.set()
            go.wait()
        rest.set()

    thread = threading.Thread(target=early)
    thread.start()
    entered.wait()
    with ranges_recorded() as session, scope:
        go.set()
        rest.wait()
        with record_function("inside"):
            pass
    thread.join()
    assert parents(trace_of(session)) == [("shared", None), ("inside", "shared")]
    assert trace_of(session).slices.flags.tolist() == [0, 0]


def test_an_exception_that_drops_an_entered_range_goes_on(session: Session) -> None:
    def entered_twice() -> record_function:
        scope = record_function("dropped")
        scope.__enter__()
        return scope.__enter__()

    def fail() -> None:
        with record_function("in another context"):
            raise ValueError("goes on")

    def drop() -> list[object]:
        return [entered_twice(), contextvars.copy_context().run(fail)]

    with pytest.raises(ValueError, match="goes on"):
        contextvars.copy_context().run(drop)
    session.stop()
    assert parents(trace_of(session)) == [
        ("dropped", None),
        ("dropped", "dropped"),
        ("in another context", "dropped"),
    ]


def test_operators_of_interleaved_tasks_belong_to_their_own_ranges() -> None:
    torch = pytest.importorskip("torch")

    async def task(name: str, operator: Any, mine: asyncio.Event, other: asyncio.Event) -> None:
        with record_function(name):
            for _ in range(3):
                await mine.wait()
                mine.clear()
                operator(torch.ones(2))
                other.set()

    async def both() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        a.set()
        await asyncio.gather(task("negating", torch.neg, a, b), task("signing", torch.sign, b, a))

    with profile() as profiler:
        asyncio.run(both())
    trace = profiler.trace
    chains = {chain_of(trace, row) for row, name in enumerate(trace.names()) if "aten::" in name}
    assert ("aten::neg", "negating") in chains
    assert ("aten::sign", "signing") in chains
    assert not chains & {("aten::neg", "signing"), ("aten::sign", "negating")}
