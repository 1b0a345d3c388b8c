"""RecordEvent: as a block, as a decorator, with begin and end; its types; its odd uses."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
import warnings
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from recording import parents
from stepscope import _native
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.views.event_types import event_types
from stepscope.paddle import Profiler, RecordEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from stepscope.trace.model import Trace

ALLOWED = [
    TracerEventType.Dataloader,
    TracerEventType.ProfileStep,
    TracerEventType.Forward,
    TracerEventType.Backward,
    TracerEventType.Optimization,
    TracerEventType.PythonOp,
    TracerEventType.PythonUserDefined,
]
REFUSED = [event_type for event_type in TracerEventType if event_type not in ALLOWED]
STEP = "ProfileStep#0"


@pytest.fixture
def prof() -> Iterator[Profiler]:
    """A profiler that records; the tests stop it."""
    prof = Profiler(on_trace_ready=lambda _: None)
    prof.start()
    yield prof
    prof.stop()


def ranges(prof: Profiler) -> list[tuple[str, str | None]]:
    """Return the ranges within step 0, and what is around each."""
    prof.stop()
    return [(name, around) for name, around in parents(prof.trace) if name != STEP]


def typed(trace: Trace) -> list[tuple[str, TracerEventType]]:
    types = event_types(trace)
    return [(name, TracerEventType(types[row])) for row, name in enumerate(trace.names())]


def test_a_context_manager(prof: Profiler) -> None:
    with RecordEvent("outer") as event, RecordEvent("inner"):
        assert event.name == "outer"
    assert ranges(prof) == [("outer", STEP), ("inner", "outer")]


def test_begin_and_end(prof: Profiler) -> None:
    event = RecordEvent(name="mine")
    event.begin()
    with RecordEvent("inner"):
        pass
    event.end()
    with RecordEvent("after"):
        pass
    assert ranges(prof) == [("mine", STEP), ("inner", "mine"), ("after", STEP)]


def test_a_decorator(prof: Profiler) -> None:
    @RecordEvent("f")
    def f(x: int) -> int:
        """Double."""
        return 2 * x

    assert f(3) + f(4) == 14
    assert f.__name__ == "f"
    assert f.__doc__ == "Double."
    assert ranges(prof) == [("f", STEP)] * 2


def test_a_decorator_of_a_coroutine_and_of_generators(prof: Profiler) -> None:
    @RecordEvent("coroutine", TracerEventType.Forward)
    async def coroutine() -> int:
        await asyncio.sleep(0)
        return 1

    @RecordEvent("generator")
    def generator() -> Iterator[int]:
        yield 1

    @RecordEvent("asynchronous")
    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    async def both() -> int:
        return await coroutine() + sum([x async for x in asynchronous()])

    assert asyncio.run(both()) + sum(generator()) == 3
    prof.stop()
    assert typed(prof.trace)[1:] == [
        ("coroutine", TracerEventType.Forward),
        ("asynchronous", TracerEventType.PythonUserDefined),
        ("generator", TracerEventType.PythonUserDefined),
    ]


# ---- what Paddle does wrong


def test_a_second_end_is_harmless(prof: Profiler) -> None:
    event = RecordEvent("mine")
    event.end()
    event.begin()
    event.end()
    event.end()
    event.begin()
    event.end()
    assert ranges(prof) == [("mine", STEP)] * 2


def test_a_recursive_decorator_loses_nothing(prof: Profiler) -> None:
    """Paddle's stop() raises, and the trace is lost."""

    @RecordEvent("fact")
    def fact(n: int) -> int:
        return n * fact(n - 1) if n else 1

    assert fact(3) == 6
    assert ranges(prof) == [("fact", STEP), *[("fact", "fact")] * 3]


def test_overlapping_ranges_lose_nothing(prof: Profiler) -> None:
    """Paddle's stop() raises, and the trace is lost."""
    first, second = RecordEvent("first"), RecordEvent("second")
    first.begin()
    second.begin()
    first.end()
    second.end()
    assert [name for name, _ in ranges(prof)] == ["first", "second"]


def test_a_range_that_is_open_at_the_stop_is_kept(prof: Profiler) -> None:
    event = RecordEvent("open")
    event.begin()
    assert [name for name, _ in ranges(prof)] == ["open"]
    event.end()


def test_a_range_that_began_before_the_recording_is_harmless() -> None:
    event = RecordEvent("early")
    event.begin()
    with Profiler(on_trace_ready=lambda _: None) as prof:
        event.end()
        event.end()
    assert list(prof.trace.names()) == [STEP]


def test_a_range_may_end_on_another_thread(prof: Profiler) -> None:
    event = RecordEvent("handed over")
    event.begin()
    thread = threading.Thread(target=event.end)
    thread.start()
    thread.join()
    assert [name for name, _ in ranges(prof)] == ["handed over"]


def test_one_object_may_be_shared_by_threads(prof: Profiler) -> None:
    event = RecordEvent("shared")
    barrier = threading.Barrier(2)

    def work() -> None:
        with event:
            barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ranges(prof) == [("shared", None)] * 2


def test_an_exception_ends_the_range_and_goes_on(prof: Profiler) -> None:
    with pytest.raises(ZeroDivisionError), RecordEvent("failing"):
        1 / 0  # noqa: B018
    with RecordEvent("after"):
        pass
    assert ranges(prof) == [("failing", STEP), ("after", STEP)]


@pytest.mark.parametrize("name", ["", 'a"\\\n</script>', "🚀" * 500, "\ud800"])
def test_any_text_is_a_name(prof: Profiler, name: str) -> None:
    with RecordEvent(name):
        pass
    assert ranges(prof) == [(name.encode("utf-8", "replace").decode(), STEP)]


@pytest.mark.parametrize("name", [b"bytes", 3, None])
def test_what_is_no_text_is_a_type_error(name: Any) -> None:
    with pytest.raises(TypeError, match="str"):
        RecordEvent(name)


# ---- types


@pytest.mark.parametrize("event_type", ALLOWED, ids=lambda t: t.name)
def test_a_range_is_of_the_type_that_it_says(prof: Profiler, event_type: TracerEventType) -> None:
    event = RecordEvent("mine", event_type)
    assert event.event_type.name == event_type.name
    with event:
        pass
    event.begin()
    event.end()
    prof.stop()
    assert typed(prof.trace)[1:] == [("mine", event_type)] * 2


@pytest.mark.parametrize("event_type", REFUSED, ids=lambda t: t.name)
def test_a_type_that_is_not_for_python_is_warned_about_and_not_recorded(
    prof: Profiler, event_type: TracerEventType
) -> None:
    event = RecordEvent("mine", event_type=event_type)
    assert isinstance(event, RecordEvent)
    assert event.event_type.name == event_type.name
    with pytest.warns(UserWarning, match=f"{event_type.name}\\) is not recorded") as caught, event:
        pass
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="can be recorded from Python"):
        event.begin()
    event.end()
    with pytest.warns(UserWarning, match="can be recorded from Python"):
        assert event(len)("ab") == 2
    assert ranges(prof) == []


def test_no_warning_while_nothing_records() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with RecordEvent("mine", TracerEventType.Kernel):
            pass


def test_paddles_own_types_are_taken_by_name(prof: Profiler) -> None:
    theirs = Enum("TracerEventType", {"Forward": 9, "PythonUserDefined": 14})
    with RecordEvent("a", theirs["Forward"]), RecordEvent("b", theirs["PythonUserDefined"]):
        pass
    prof.stop()
    assert typed(prof.trace)[1:] == [
        ("a", TracerEventType.Forward),
        ("b", TracerEventType.PythonUserDefined),
    ]


@pytest.mark.parametrize("wrong", [9, "Forward", None])
def test_what_is_no_type_is_a_clear_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="is not a TracerEventType") as caught:
        RecordEvent("mine", wrong)
    assert repr(wrong) in str(caught.value)


def test_copies_are_new_ranges(prof: Profiler) -> None:
    event = RecordEvent("mine", TracerEventType.Backward)
    event.begin()
    for same in (copy.copy(event), pickle.loads(pickle.dumps(event))):
        assert (same.name, same.event_type.name) == ("mine", "Backward")
        same.end()
    assert "mine" in repr(event)
    event.end()
    assert ranges(prof) == [("mine", STEP)]


def test_a_subclass_is_a_range(prof: Profiler) -> None:
    class Mine(RecordEvent):
        pass

    with Mine("sub", TracerEventType.Forward) as event:
        assert type(event) is Mine
    assert ranges(prof) == [("sub", STEP)]


@pytest.mark.parametrize("wrong", [int, 3, RecordEvent.__mro__[1]])
def test_only_a_subclass_can_be_hastened(wrong: Any) -> None:
    with pytest.raises(TypeError, match="subclass of record_function"):
        _native.hasten(wrong)


def test_made_with_a_keyword_or_without_it_is_the_same() -> None:
    same = [RecordEvent("a"), RecordEvent(name="a"), RecordEvent("a", event_type=ALLOWED[-1])]
    assert len({(type(event), event.name, event.event_type) for event in same}) == 1
    with pytest.raises(TypeError):
        RecordEvent()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        RecordEvent("a", ALLOWED[0], 3)  # type: ignore[call-arg]
