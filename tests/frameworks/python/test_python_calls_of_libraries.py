"""Functions in C are recorded where the program calls them, and on request where libraries do."""

from __future__ import annotations

import contextlib
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import pytest

from python_frames import (
    MONITORED,
    calls_below,
    calls_recorded,
    in_library,
    named,
)
from recording import trace_of
from stepscope.record.options import StackMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("no_calls_left_on")

LEN = "<built-in function len>"
SORTED = "<built-in function sorted>"


def seen_in(work: Callable[[], Any], mode: StackMode = StackMode.CALLS) -> list[Any]:
    with calls_recorded(mode=mode) as session:
        work()
    return calls_below(trace_of(session), named(work))


def test_libraries_are_seen_to_call_python_functions_only() -> None:
    outer = in_library("def outer(inner):\n    len(())\n    inner()")
    inner = in_library("def inner():\n    len(())")

    def work() -> None:
        len(())
        outer(inner)
        len(())

    own = [(LEN, named(work))]
    calls = [("/opt/site-packages/library.py(1): outer", named(work))]
    calls += [("/opt/site-packages/library.py(1): inner", calls[0][0])]
    assert seen_in(work) == own + calls + own


def test_all_calls_are_seen_on_request() -> None:
    library = in_library("def library():\n    len(())")

    def work() -> None:
        library()

    name = "/opt/site-packages/library.py(1): library"
    assert seen_in(work, StackMode.ALL_CALLS) == [(name, named(work)), (LEN, name)]


def test_the_standard_library_is_a_library() -> None:
    def work() -> None:
        textwrap.dedent("  a")
        threading.current_thread()

    assert [name for name, _ in seen_in(work) if "<built-in" in name] == []
    assert [name for name, _ in seen_in(work, StackMode.ALL_CALLS) if "<built-in" in name] != []


def test_what_a_library_calls_back_is_the_program_again() -> None:
    library = in_library("def library(function):\n    len(())\n    function()\n    len(())")

    def work() -> None:
        library(outer)
        len(())

    def outer() -> None:
        library(inner)
        len(())

    def inner() -> None:
        len(())

    assert [pair for pair in seen_in(work) if pair[0] == LEN] == [
        (LEN, named(inner)),
        (LEN, named(outer)),
        (LEN, named(work)),
    ]


def test_a_call_by_a_library_does_not_end_one_of_the_program() -> None:
    key = in_library("def key(x):\n    return sorted([x])")
    failing = in_library("def failing(x):\n    sorted(x)")

    def work() -> None:
        sorted([1], key=key)
        with contextlib.suppress(TypeError):
            sorted([1], key=failing)
        after()

    def after() -> None: ...

    assert [pair for pair in seen_in(work) if "contextlib" not in pair[0]] == [
        (SORTED, named(work)),
        ("/opt/site-packages/library.py(1): key", SORTED),
        (SORTED, named(work)),
        ("/opt/site-packages/library.py(1): failing", SORTED),
        (named(after), named(work)),
    ]


def test_exceptions_leave_libraries_as_they_leave_the_program() -> None:
    library = in_library("def library(function):\n    function()")

    def work() -> None:
        with contextlib.suppress(ValueError):
            library(through)
        len(())

    def through() -> None:
        len(())
        library(failing)

    def failing() -> None:
        len(())
        raise ValueError

    assert [pair for pair in seen_in(work) if pair[0] == LEN] == [
        (LEN, named(through)),
        (LEN, named(failing)),
        (LEN, named(work)),
    ]


def test_generators_of_libraries_and_of_the_program_take_turns() -> None:
    items = in_library("def items():\n    for i in 1, 2:\n        len(())\n        yield i")
    use = in_library("def use(generator):\n    for _ in generator:\n        len(())")

    def work() -> None:
        for _ in items():
            len(())
        use(own())

    def own() -> Iterator[int]:
        len(())
        yield 1
        len(())

    calls = seen_in(work)
    assert [pair for pair in calls if pair[0] == LEN] == [
        *[(LEN, named(work))] * 2,
        *[(LEN, named(own))] * 2,
    ]
    assert [name for name, _ in calls].count("/opt/site-packages/library.py(1): items") == 3


def test_who_wants_all_calls_has_others_see_them() -> None:
    library = in_library("def library(function):\n    len(())\n    function()\n    len(())")
    everything = contextlib.ExitStack()

    def work() -> None:
        library(start)
        library(nothing)

    def start() -> None:
        everything.enter_context(calls_recorded(mode=StackMode.ALL_CALLS))

    def nothing() -> None: ...

    with calls_recorded() as session, everything:
        work()
    calls = calls_below(trace_of(session), named(work))
    by_library = [pair for pair in calls if pair[0] == LEN]
    assert by_library == [(LEN, "/opt/site-packages/library.py(1): library")] * 3
    assert not trace_of(session).slices.flags[[*trace_of(session).names()].index(calls[0][0])]


def test_every_recording_begins_anew() -> None:
    library = in_library("def library():\n    len(())")

    def work() -> None:
        library()

    name = "/opt/site-packages/library.py(1): library"
    for _ in range(2):
        assert seen_in(work) == [(name, named(work))]
        assert seen_in(work, StackMode.ALL_CALLS) == [(name, named(work)), (LEN, name)]


@pytest.mark.skipif(not MONITORED, reason="sys.monitoring is not used")
def test_another_tool_hears_of_libraries_as_before() -> None:
    """Its events keep an instruction telling that we have told to be silent."""
    monitoring, tool = sys.monitoring, 5
    events = monitoring.events
    heard: list[str] = []
    library = in_library("def library(x=0):\n    return len([x])")

    def work() -> None:
        for _ in range(3):
            library()
        sorted([1], key=library)
        len(())

    def hear(event: str) -> Callable[..., None]:
        return lambda code, *_: heard.append(event) if code is library.__code__ else None

    monitoring.use_tool_id(tool, "another")
    try:
        for name in ("CALL", "C_RETURN"):
            monitoring.register_callback(tool, getattr(events, name), hear(name))
        monitoring.set_events(tool, events.CALL)
        calls = [pair for pair in seen_in(work) if pair[1] == named(work)]
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
    assert heard == ["CALL", "C_RETURN"] * 4
    assert [name for name, _ in calls if name in (LEN, SORTED)] == [SORTED, LEN]
