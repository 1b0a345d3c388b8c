"""record_function: the user's own ranges."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from recording import manual_clock, parents, ranges_recorded, run_python, trace_of
from stepscope import Session, record_function
from stepscope._native import advance_clock, recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator


@pytest.fixture
def session() -> Iterator[Session]:
    with ranges_recorded() as running:
        yield running
    assert not recording()


def names(session: Session) -> list[str]:
    session.stop()
    return list(trace_of(session).names())


# ---- a context manager


def test_a_with_block_gives_the_range_itself(session: Session) -> None:
    scope = record_function("a")
    with scope as inside:
        assert inside is scope
    assert names(session) == ["a"]


def test_one_object_serves_many_times(session: Session) -> None:
    scope = record_function("again")
    for _ in range(3):
        with scope:
            pass
    assert names(session) == ["again"] * 3


def test_one_object_may_be_entered_inside_itself(session: Session) -> None:
    scope = record_function("down")

    def descend(depth: int) -> None:
        with scope:
            if depth:
                descend(depth - 1)

    descend(4)
    session.stop()
    assert trace_of(session).slices.depth.tolist() == [0, 1, 2, 3, 4]
    assert trace_of(session).slices.parent.tolist() == [-1, 0, 1, 2, 3]


def test_nothing_is_recorded_while_nothing_records() -> None:
    with record_function("a"):
        assert not recording()


def test_an_exception_passes_through_and_the_range_ends(session: Session) -> None:
    with pytest.raises(KeyError, match="mine"), record_function("raises"):
        raise KeyError("mine")
    with record_function("after"):
        pass
    session.stop()
    assert parents(trace_of(session)) == [("raises", None), ("after", None)]
    assert trace_of(session).slices.flags.tolist() == [0, 0]


def test_an_exit_stack_enters_and_leaves_it(session: Session) -> None:
    with contextlib.ExitStack() as stack:
        for name in "abc":
            stack.enter_context(record_function(name))
    session.stop()
    assert parents(trace_of(session)) == [("a", None), ("b", "a"), ("c", "b")]


def test_leaving_what_was_not_entered_is_harmless(session: Session) -> None:
    record_function("never").__exit__(None, None, None)
    assert names(session) == []


def test_a_range_dropped_inside_its_block_ends_there(session: Session) -> None:
    record_function("dropped").__enter__()
    with record_function("after"):
        pass
    session.stop()
    assert parents(trace_of(session)) == [("dropped", None), ("after", None)]


def test_its_methods_may_be_kept_and_called_later(session: Session) -> None:
    scope = record_function("kept")
    first, second, leave = scope.__enter__, scope.__enter__, scope.__exit__
    assert first is not second
    assert first() is second() is scope
    leave(None, None, None)
    leave(None, None, None)
    del first, second
    with scope:  # what a block looks up is one that somebody still has
        pass
    assert names(session) == ["kept"] * 3


def test_a_kept_method_keeps_its_range(session: Session) -> None:
    leave = record_function("alone").__enter__().__exit__
    with record_function("inside"):
        pass
    leave(None, None, None)
    del leave
    session.stop()
    assert parents(trace_of(session)) == [("alone", None), ("inside", "alone")]


# ---- a decorator


def test_it_decorates_a_function_and_keeps_what_it_is(session: Session) -> None:
    @record_function("half")
    def half(value: int, *, by: int = 2) -> int:
        """Divide."""
        return value // by

    assert half(9) == 4
    assert half(9, by=3) == 3
    assert (half.__name__, half.__doc__) == ("half", "Divide.")
    assert str(inspect.signature(half)) == "(value: 'int', *, by: 'int' = 2) -> 'int'"
    assert names(session) == ["half", "half"]


def test_it_decorates_methods_of_every_kind(session: Session) -> None:
    class Model:
        @record_function("method")
        def method(self) -> Model:
            return self

        @classmethod
        @record_function("class method")
        def of_class(cls) -> type:
            return cls

        @staticmethod
        @record_function("static method")
        def static() -> int:
            return 1

        @property
        @record_function("property")
        def value(self) -> int:
            return 2

    model = Model()
    assert model.method() is model
    assert Model.of_class() is Model
    assert (Model.static(), model.value) == (1, 2)
    assert names(session) == ["method", "class method", "static method", "property"]


def test_a_decorated_function_may_call_itself(session: Session) -> None:
    @record_function("factorial")
    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    assert factorial(5) == 120
    session.stop()
    assert trace_of(session).slices.depth.tolist() == [0, 1, 2, 3, 4]


def test_an_exception_passes_through_a_decorated_function(session: Session) -> None:
    @record_function("raises")
    def raises() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        raises()
    assert names(session) == ["raises"]


def test_a_coroutine_is_measured_while_it_runs_not_while_it_is_made() -> None:
    @record_function("work")
    async def work(value: int) -> int:
        advance_clock(10)
        await asyncio.sleep(0)
        advance_clock(100)
        return value

    with manual_clock(), ranges_recorded() as session:
        made = work(7)
        advance_clock(1_000)
        assert asyncio.run(made) == 7
    assert inspect.iscoroutinefunction(work)
    assert trace_of(session).slices.duration_ns.tolist() == [110]


def test_a_generator_is_measured_from_its_first_item_to_its_end() -> None:
    @record_function("items")
    def items() -> Generator[int, int, str]:
        got = yield 1
        advance_clock(got)
        yield 2
        return "done"

    with manual_clock(), ranges_recorded() as session:
        generator = items()
        advance_clock(1_000)
        assert next(generator) == 1
        assert generator.send(50) == 2
        with pytest.raises(StopIteration) as stop:
            next(generator)
    assert inspect.isgeneratorfunction(items)
    assert stop.value.value == "done"
    assert trace_of(session).slices.duration_ns.tolist() == [50]


def test_a_generator_that_is_closed_early_ends_its_range(session: Session) -> None:
    @record_function("items")
    def items() -> Iterator[int]:
        yield 1

    generator = items()
    next(generator)
    generator.close()  # type: ignore[attr-defined]
    session.stop()
    assert trace_of(session).slices.flags.tolist() == [0]


def test_an_exception_thrown_into_a_generator_reaches_it(session: Session) -> None:
    @record_function("items")
    def items() -> Generator[int, None, None]:
        try:
            yield 1
        except KeyError:
            yield 2

    generator = items()
    next(generator)
    assert generator.throw(KeyError()) == 2
    generator.close()
    assert names(session) == ["items"]


def test_generators_of_one_function_do_not_end_each_others_ranges() -> None:
    @record_function("items")
    def items() -> Iterator[int]:
        yield 1
        yield 2

    with manual_clock(), ranges_recorded() as session:
        first, second = items(), items()
        next(first)
        advance_clock(10)
        next(second)
        advance_clock(100)
        first.close()  # type: ignore[attr-defined]
        advance_clock(1_000)
        second.close()  # type: ignore[attr-defined]
    assert trace_of(session).slices.duration_ns.tolist() == [110, 1_100]


def test_an_async_generator_is_measured_and_passes_items() -> None:
    @record_function("items")
    async def items() -> AsyncIterator[int]:
        for i in range(3):
            advance_clock(10)
            yield i

    async def collect() -> list[int]:
        return [i async for i in items()]

    with manual_clock(), ranges_recorded() as session:
        assert asyncio.run(collect()) == [0, 1, 2]
    assert inspect.isasyncgenfunction(items)
    assert trace_of(session).slices.duration_ns.tolist() == [30]


def test_an_async_generator_takes_what_is_sent_and_thrown(session: Session) -> None:
    """A decorated async generator is as good as the plain one."""
    seen: list[object] = []

    @record_function("items")
    async def items() -> AsyncIterator[int]:
        try:
            seen.append((yield 1))  # type: ignore[func-returns-value]
            yield 2
        except KeyError:
            seen.append("thrown")
            yield 3
        finally:
            seen.append("closed")

    async def drive() -> None:
        generator: Any = items()
        assert await generator.asend(None) == 1
        assert await generator.asend("sent") == 2
        assert await generator.athrow(KeyError()) == 3
        await generator.aclose()
        seen.append("after")

    asyncio.run(drive())
    assert seen == ["sent", "thrown", "closed", "after"]
    assert names(session) == ["items"]


@pytest.mark.parametrize("thing", [3, None, "text"])
def test_decorating_what_cannot_be_called_names_it(thing: object) -> None:
    decorator: Any = record_function("a")
    with pytest.raises(TypeError, match=repr(thing)):
        decorator(thing)


@pytest.mark.parametrize("interrupted", ["__init__", "__enter__", "__exit__"])
def test_ctrl_c_while_torchs_profiler_is_told_of_a_range_ends_the_program(interrupted: str) -> None:
    """What torch raises is dropped; the interruption is the program's."""
    done = run_python(
        f"""
        import sys, types
        from stepscope import record_function

        def interrupt(*_):
            raise KeyboardInterrupt

        class Range:
            def __init__(self, name, args): pass
            def __enter__(self): pass
            def __exit__(self, *_): raise ValueError

        Range.{interrupted} = interrupt
        profiler = types.ModuleType("torch.autograd.profiler")
        profiler._is_profiler_enabled = True
        profiler.record_function = Range
        sys.modules[profiler.__name__] = profiler
        with record_function("a"):
            pass
        for _ in range(100):  # it is raised at the next instruction
            pass
        print("it was lost")
        """
    )
    assert done.stderr.rstrip().endswith("KeyboardInterrupt"), done.stderr
    assert done.stdout == ""
