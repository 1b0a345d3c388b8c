"""The timeline of Python calls where frames go unusual ways, and where others trace them."""

from __future__ import annotations

import _thread
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

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
    running,
)
from recording import chain_of, row_of, run_python, trace_of
from stepscope.frameworks.python.calls import PythonCalls
from stepscope.record.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("no_calls_left_on")


# ---- unusual ways


def recurse() -> None:
    recurse()


def test_recursion_without_an_end() -> None:
    caught: list[str] = []

    def work() -> None:
        try:
            recurse()
        except RecursionError as error:
            caught.append(str(error))
        after()

    def after() -> None: ...

    with calls_recorded() as session:
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(caught) == 2
    assert all("maximum recursion depth exceeded" in text for text in caught)
    trace = trace_of(session)
    afters = [row for row, name in enumerate(trace.names()) if name == named(after)]
    assert [chain_of(trace, row)[1] for row in afters] == [named(work)] * 2
    assert count(trace, recurse) > 2 * 800


def test_recursion_deeper_than_the_stack_of_c() -> None:
    """A Python call takes no room there: it must not while calls are recorded, either."""
    done = run_python(
        """
        import sys, threading
        from stepscope.record.session import Session
        from stepscope.frameworks.python.calls import PythonCalls
        sys.setrecursionlimit(200_000)
        def recurse(depth):
            if depth:
                recurse(depth - 1)
        def work():
            recurse(100_000)
        session = Session([PythonCalls()])
        session.start()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
        session.stop()
        names = list(session.trace.names())
        print(sum("recurse" in name for name in names), session.trace.slices.depth.max() > 100_000)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "200002 True\n"


def test_a_generator_that_nobody_needs_any_more_is_closed() -> None:
    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed()

    def closed() -> None: ...

    def work() -> None:
        running: Any = numbers()
        next(running)
        running = None
        after()

    def after() -> None: ...

    with calls_recorded() as session:
        work()
    calls = [pair for pair in calls_below(trace_of(session), named(work)) if pair[0] != LEN]
    assert calls[1:] == [
        (named(numbers), "<built-in function next>"),
        (named(numbers), named(work)),
        (named(closed), named(numbers)),
        (named(after), named(work)),
    ]


def test_recording_anew_inside_of_calls() -> None:
    library = in_library("def library(function):\n    function()")
    sessions = [Session([PythonCalls()]) for _ in range(2)]

    def work() -> None:
        sessions[0].start()
        library(through)
        after()
        sessions[1].stop()

    def through() -> None:
        library(switch)
        after()

    def switch() -> None:
        sessions[0].stop()
        sessions[1].start()

    def after() -> None:
        len(())

    work()
    first, second = map(trace_of, sessions)
    name = "/opt/site-packages/library.py(1): library"
    expected = (named(switch), name, named(through), name, running(work, 1))
    assert chain_of(first, row_of(first, named(switch)))[:5] == expected
    # All of these were running when the second began.
    switched, passed, worked = running(switch, 2), running(through, 1), running(work, 2)
    inside = "/opt/site-packages/library.py(2): library"
    expected = (switched, inside, passed, inside, worked)
    assert chain_of(second, row_of(second, switched))[:5] == expected
    assert count(first, after) == 0
    in_through, in_work = (r for r, name in enumerate(second.names()) if name == named(after))
    assert chain_of(second, in_through)[:4] == (named(after), *expected[2:])
    assert chain_of(second, in_work)[:2] == (named(after), worked)
    assert [parent for name, parent in calls_below(second, worked) if name == LEN] == [
        named(after)
    ] * 2
    assert not second.slices.flags[row_of(second, passed)]


def test_stopping_deep_inside_leaves_nothing_on() -> None:
    library = in_library("def library(function):\n    function()")
    session = Session([PythonCalls()])
    events: list[str] = []

    def work() -> None:
        session.start()
        library(stop)
        sys.setprofile(lambda _frame, event, _arg: events.append(event))
        library(nothing)
        sys.setprofile(None)

    def stop() -> None:
        session.stop()

    def nothing() -> None: ...

    work()
    assert count(trace_of(session), stop) == 1
    assert count(trace_of(session), nothing) == 0
    assert events == ["call", "call", "return", "return", "c_call"]


@evaluates
def test_threads_that_python_did_not_start() -> None:
    done = threading.Event()

    def in_thread() -> None:
        leaf()
        done.set()

    def leaf() -> None: ...

    with calls_recorded() as session:
        _thread.start_new_thread(in_thread, ())
        done.wait()
    trace = trace_of(session)
    assert chain_of(trace, row_of(trace, named(leaf))) == (named(leaf), named(in_thread))


def test_a_child_that_a_library_forks_is_clean() -> None:
    fork = in_library("def fork(os):\n    return os.fork()")

    def work() -> None: ...

    with calls_recorded() as session:
        child = fork(os)
        if child == 0:
            status = 1
            try:
                work()
                with calls_recorded() as own:
                    work()
                clean = MONITORED or evaluator() == DEFAULT_EVALUATOR
                status = 0 if clean and count(trace_of(own), work) == 1 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        work()
    assert count(trace_of(session), work) == 1


# ---- others who trace


def test_a_debugger_sees_the_lines_of_libraries() -> None:
    library = in_library("def library(function):\n    function()\n    len(())")
    lines: list[int] = []

    def debugger(frame: Any, event: str, _arg: object) -> Any:
        if event == "line" and "library.py" in frame.f_code.co_filename:
            lines.append(frame.f_lineno)
        return debugger

    def work() -> None:
        library(begin)
        library(nothing)
        sys.settrace(None)
        library(nothing)
        len(())

    def begin() -> None:
        sys.settrace(debugger)

    def nothing() -> None: ...

    before = sys.gettrace()
    try:
        with calls_recorded() as session:
            work()
    finally:
        sys.settrace(before)
    assert lines == [2, 3]
    calls = calls_below(trace_of(session), named(work))
    assert [pair for pair in calls if pair[0] == LEN] == [(LEN, named(work))]
    assert count(trace_of(session), nothing) == 2
    assert count(trace_of(session), debugger) == 0 or MONITORED


def test_a_profiler_that_comes_later_sees_libraries() -> None:
    library = in_library("def library(function):\n    function()\n    len(())")
    seen: list[tuple[str, str]] = []

    def other(frame: Any, event: str, _arg: object) -> None:
        seen.append((event, frame.f_code.co_name))

    def work() -> None:
        library(begin)
        library(nothing)

    def begin() -> None:
        sys.setprofile(other)

    def nothing() -> None: ...

    with calls_recorded():
        work()
        sys.setprofile(None)
    assert [event for event in seen if event[1] in ("library", "nothing")] == [
        ("c_call", "library"),
        ("c_return", "library"),
        ("return", "library"),
        ("call", "library"),
        ("call", "nothing"),
        ("return", "nothing"),
        ("c_call", "library"),
        ("c_return", "library"),
        ("return", "library"),
    ]


@evaluates
def test_who_forbids_profilers_is_obeyed() -> None:
    done = run_python(
        """
        import sys
        from stepscope.record.session import Session
        from stepscope.frameworks.python.calls import PythonCalls
        def forbid(event, _arguments):
            if event == "sys.setprofile":
                raise RuntimeError
        sys.addaudithook(forbid)
        session = Session([PythonCalls()])
        session.start()
        forbid("", ())
        session.stop()
        print(len(session.trace))
        """
    )
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert "an audit hook forbids profiling" in done.stderr
