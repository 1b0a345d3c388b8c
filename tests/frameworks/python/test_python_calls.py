"""The timeline of Python calls: a slice for every call, as it was made."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from python_frames import (
    calls_below,
    calls_recorded,
    frames_of,
    named,
    place,
    running,
)
from recording import (
    chain_of,
    manual_clock,
    parents,
    ranges_recorded,
    row_of,
    trace_of,
)
from stepscope import _native, record_function
from stepscope.frameworks.python.calls import PythonCalls
from stepscope.record.limits import MemoryLimit
from stepscope.record.session import Session
from stepscope.trace.model import SliceFlags, SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("no_calls_left_on")


# ---- what is recorded


def test_calls_stand_inside_of_each_other_as_they_were_made() -> None:
    def outer() -> None:
        inner()
        inner()

    def inner() -> None:
        len(())

    with calls_recorded() as session:
        outer()
    trace = trace_of(session)
    assert (
        calls_below(trace, named(outer))
        == [
            (named(inner), named(outer)),
            ("<built-in function len>", named(inner)),
        ]
        * 2
    )
    rows = [row for row, name in enumerate(trace.names()) if name == named(inner)]
    assert (trace.slices.kind[rows] == SliceKind.PYTHON).all()
    assert trace.strings[int(trace.slices.category[rows[0]])] == "python_function"
    assert trace.slices.flags[rows].tolist() == [0, 0]


def test_their_times_are_those_of_the_program() -> None:
    def outer() -> None:
        _native.advance_clock(5)
        inner()
        _native.advance_clock(7)

    def inner() -> None:
        _native.advance_clock(100)

    with manual_clock(), calls_recorded() as session:
        outer()
    slices = trace_of(session).slices
    out, within = (row_of(trace_of(session), named(f)) for f in (outer, inner))
    assert (slices.duration_ns[out], slices.self_ns[out]) == (112, 12)
    assert slices.duration_ns[within] == 100
    assert slices.start_ns[within] == slices.start_ns[out] + 5


def test_functions_written_in_c_are_named_by_what_they_are_bound_to() -> None:
    def work() -> None:
        [].append(1)
        "a".upper()
        dict.fromkeys("a")
        sorted([2, 1], key=abs)
        str.lower("A")

    with calls_recorded() as session:
        work()
    assert [name for name, _ in calls_below(trace_of(session), named(work))] == [
        "<built-in method append of list object>",
        "<built-in method upper of str object>",
        "<built-in method fromkeys of type object>",
        "<built-in function sorted>",
        "<built-in method lower of str object>",
    ]


def test_a_generator_is_a_call_each_time_it_goes_on() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    def work() -> None:
        for _ in numbers():
            pass

    with calls_recorded() as session:
        work()
    trace = trace_of(session)
    assert calls_below(trace, named(work)) == [(named(numbers), named(work))] * 3


def test_exceptions_end_calls() -> None:
    def failing() -> None:
        raise ValueError

    def failing_in_c() -> None:
        int("x")
        float("x")

    def generator() -> Iterator[int]:
        with contextlib.suppress(ValueError):
            yield 1
        with contextlib.suppress(ValueError):  # or closing it would run nothing
            yield 2

    def work() -> None:
        for function in (failing, failing_in_c):
            with contextlib.suppress(ValueError):
                function()
        with contextlib.suppress(StopIteration):
            next(iter(()))
        running = generator()
        next(running)
        running.throw(ValueError())
        running.close()
        after()

    def after() -> None: ...

    with calls_recorded() as session:
        work()
    trace = trace_of(session)
    below = calls_below(trace, named(work))
    assert (named(failing), named(work)) in below
    assert (named(failing_in_c), named(work)) in below
    assert ("<built-in function next>", named(work)) in below
    assert [parent for name, parent in below if name == named(generator)] == [
        "<built-in function next>",
        "<built-in method throw of generator object>",
        "<built-in method close of generator object>",
    ]
    assert (named(after), named(work)) in below
    assert not trace.slices.flags[row_of(trace, named(after))]


def test_recursion() -> None:
    def work(depth: int) -> None:
        if depth:
            work(depth - 1)

    with calls_recorded() as session:
        work(500)
    trace = trace_of(session)
    rows = [row for row, name in enumerate(trace.names()) if name == named(work)]
    assert np.diff(trace.slices.depth[rows]).tolist() == [1] * 500
    assert (np.diff(trace.slices.end_ns[rows]) <= 0).all()


def test_coroutines_are_calls_from_one_wait_to_the_next() -> None:
    async def step() -> None:
        await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(step(), step())

    with calls_recorded() as session:
        asyncio.run(both())
    names = list(trace_of(session).names())
    assert names.count(named(step)) == 4
    assert "overlapping slices" not in trace_of(session).info.anomalies


def test_ranges_and_calls_enclose_each_other() -> None:
    def outer() -> None:
        with record_function("the range"):
            inner()

    def inner() -> None: ...

    with calls_recorded() as session:
        outer()
    trace = trace_of(session)
    chain = chain_of(trace, row_of(trace, named(inner)))
    assert chain[:3] == (named(inner), "the range", named(outer))
    stack = frames_of(trace, row_of(trace, "the range"))
    assert stack[0] == place(outer, 1)


def test_hostile_names() -> None:
    code = compile("def f(): pass\nf()", 'a "b"\\\n</script>\udcff🔥.py', "exec")
    with calls_recorded() as session:
        exec(code)
    shown = 'a "b"\\\n</script>?🔥.py'
    names = list(trace_of(session).names())
    assert f"{shown}(1): f" in names
    assert f"{shown}(1): <module>" in names


def test_what_the_profiler_itself_does_is_not_shown() -> None:
    def work() -> None: ...

    session = Session([PythonCalls()])
    session.start()
    work()
    session.stop()
    trace = trace_of(session)
    here = running(test_what_the_profiler_itself_does_is_not_shown, 4)
    assert [name for name, parent in parents(trace) if parent == here] == [named(work)]
    assert not any("stepscope/" in name for name in trace.names())


# ---- the edges of the window


def test_calls_in_progress_begin_with_the_window_and_end_with_it() -> None:
    def starts() -> Any:
        context = calls_recorded()
        session = context.__enter__()
        return context, session

    def stops(context: Any) -> None:
        context.__exit__(None, None, None)

    context, session = starts()
    stops(context)
    trace = trace_of(session)
    slices = trace.slices
    here = running(test_calls_in_progress_begin_with_the_window_and_end_with_it, 9)
    this, began, ended = (row_of(trace, name) for name in (here, running(starts, 2), named(stops)))
    assert slices.start_ns[this] == slices.start_ns[began] == trace.info.start_ns
    assert not slices.flags[began]
    assert slices.end_ns[this] == slices.end_ns[ended] == trace.info.end_ns
    assert slices.flags[this] == slices.flags[ended] == SliceFlags.UNFINISHED
    assert slices.parent[began] == slices.parent[ended] == this


def test_windows_within_each_other_see_what_is_theirs() -> None:
    def one() -> None: ...
    def two() -> None: ...

    with ranges_recorded() as outermost, calls_recorded() as outer:
        one()
        with calls_recorded() as inner:
            two()
        one()
    for session, count in [(outermost, 2), (outer, 2), (inner, 0)]:
        trace = trace_of(session)
        names = list(trace.names())
        assert (names.count(named(one)), names.count(named(two))) == (count, 1)
        this = row_of(trace, running(test_windows_within_each_other_see_what_is_theirs, 4))
        assert trace.slices.flags[this] == SliceFlags.UNFINISHED
        assert session is outermost or trace.slices.start_ns[this] == trace.info.start_ns


def test_recordings_one_after_the_other() -> None:
    def work() -> None: ...

    for _ in range(3):
        with calls_recorded() as session:
            work()
        assert list(trace_of(session).names()).count(named(work)) == 1
        with ranges_recorded() as session:
            work()
        assert len(trace_of(session)) == 0


@pytest.mark.slow
def test_two_hundred_recordings_keep_no_code() -> None:
    references: list[weakref.ref[Any]] = []
    for _ in range(200):
        with calls_recorded():
            scope: dict[str, Any] = {}
            exec("def made(): pass\nmade()", scope)
            references.append(weakref.ref(scope["made"].__code__))
        del scope
    gc.collect()
    assert [code for code in references if code() is not None] == []


@pytest.mark.slow
def test_many_recordings_do_not_grow_the_process() -> None:
    def resident_bytes() -> int:
        with open("/proc/self/statm") as statm:  # noqa: PTH123 - read many times
            return int(statm.read().split()[1]) * 4096

    def record_much() -> None:
        with calls_recorded():
            for _ in range(1_000):
                len(())

    def growth() -> int:
        before = resident_bytes()
        for _ in range(200):
            record_much()
        return resident_bytes() - before

    # The allocator settles after some rounds; what is kept grows in every one.
    assert min(growth() for _ in range(5)) < 4 << 20  # a recording holds 64 KB of calls


def test_calls_give_way_to_ranges_when_memory_is_short() -> None:
    with calls_recorded(MemoryLimit(64 * 1024)) as session:
        for i in range(10):
            with record_function(f"range {i}"):
                for _ in range(1_000):
                    len(())
    trace = trace_of(session)
    assert {f"range {i}" for i in range(10)} <= set(trace.names())
    assert trace.losses.events > 5_000


def test_what_has_a_wrapper_of_ours_is_shown_as_without() -> None:
    thread = threading.Thread(target=len, args=((),))
    with calls_recorded() as session:
        thread.start()
    thread.join()
    trace = trace_of(session)
    names = [trace.strings[name] for name in trace.slices.name]
    (start,) = (row for row, name in enumerate(names) if name.endswith(": start"))
    inside = [names[row] for row in np.flatnonzero(trace.slices.parent == start)]
    assert any(name.endswith(": wait") for name in inside)


def test_a_recording_may_end_while_a_call_is_named() -> None:
    def called(_subject: object) -> None:
        pass

    def end_all(_subject: object) -> str:
        session.stop()
        _native.clear_calls()
        return "named"

    _native.watch_frames(called.__code__, end_all)
    try:
        with calls_recorded() as session:
            called(1)
    finally:
        _native.leave_frames(called.__code__)
    assert place(called, 0, "called") not in trace_of(session).names()
    with calls_recorded() as session:
        called(1)
    assert list(trace_of(session).names()).count(place(called, 0, "called")) == 1


def test_ctrl_c_while_an_object_is_named_ends_the_program() -> None:
    """Naming it is ours, and fails silently; the interruption is the program's."""

    def shown(_: object) -> None:
        pass

    def interrupt(_: object) -> str:
        raise KeyboardInterrupt

    _native.watch_frames(shown.__code__, interrupt)
    try:
        with calls_recorded(), pytest.raises(KeyboardInterrupt):
            for _ in range(100):  # it is raised at the next instruction
                shown(object())
    finally:
        _native.leave_frames(shown.__code__)
