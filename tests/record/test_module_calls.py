"""Calls seen behind the call operator, of classes that no framework made."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from recording import parents, trace_of
from stepscope.record.module_calls import ModuleCalls
from stepscope.record.session import Session
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepscope.trace.model import Trace


class Part:
    """Like the modules of frameworks: called through a function of the base class."""

    training = True

    def __init__(self, **parts: Part) -> None:
        self.parts = parts

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, depth: int = 0, **_: Any) -> int:
        for part in self.parts.values():
            depth = part(depth + 1)
        return depth


class Model(Part): ...


class Fails(Part):
    def forward(self, depth: int = 0, **_: Any) -> int:
        raise ValueError("no")


class OwnCall(Part):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ("own", super().__call__(*args, **kwargs))


class Anatomy:
    def named_modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        yield "", model
        for name, part in model.parts.items():
            for below, named_module in self.named_modules(part):
                yield f"{name}.{below}".rstrip("."), named_module

    def parameter_sizes(self, module: Any, *, of_all_below: bool) -> Iterable[int | None]:
        return [3 if of_all_below else 1]


records_gradients = True
CALLS = ModuleCalls(lambda: (Part, lambda: records_gradients), Anatomy())
NOTHING = ModuleCalls(lambda: None, Anatomy())


@contextlib.contextmanager
def calls_recorded(*, named: bool = False) -> Iterator[Session]:
    session = Session([])
    session.start()
    CALLS.watched.acquire()
    CALLS.recorded.acquire()
    if named:
        CALLS.named.acquire()
    try:
        yield session
    finally:
        if named:
            CALLS.named.release()
        CALLS.recorded.release()
        CALLS.watched.release()
        session.stop()


def modules_of(trace: Trace) -> list[tuple[str, str | None]]:
    """Return (name, parent) of every module call."""
    pairs = zip(parents(trace), trace.slices.kind.tolist(), strict=True)
    return [pair for pair, kind in pairs if kind == SliceKind.MODULE]


def test_the_outermost_call_is_recorded_with_its_modes() -> None:
    model = Model(a=Part(b=Part()), c=Part())
    with calls_recorded() as session:
        assert model(depth=1) == 4
    trace = trace_of(session)
    assert modules_of(trace) == [("Model", None)]
    assert trace.slices.args.of_row(0, trace.strings) == {
        "Class": "Model",
        "Training": 1,
        "Grad": 1,
        "Model id": id(model),
    }


def test_all_calls_go_by_their_names() -> None:
    model = Model(a=Part(b=Part()), c=Part())
    with calls_recorded(named=True) as session:
        model()
    trace = trace_of(session)
    assert modules_of(trace) == [("Model", None), ("a", "Model"), ("a.b", "a"), ("c", "Model")]
    values = [trace.slices.args.of_row(row, trace.strings) for row in range(len(trace))]
    assert {"Class": "Part", "Parameters": 3, "Own parameters": 1} in values


def test_exceptions_pass_and_end_the_call() -> None:
    model = Model(a=Fails())
    with calls_recorded() as session:
        with pytest.raises(ValueError, match="no"):
            model()
        assert Model()() == 0
    assert modules_of(trace_of(session)) == [("Model", None), ("Model", None)]


def test_a_class_may_have_its_own_call() -> None:
    with calls_recorded(named=True) as session:
        assert OwnCall(a=Part())() == ("own", 1)
    assert modules_of(trace_of(session)) == [("OwnCall", None), ("a", "OwnCall")]


def test_nothing_shows_and_calls_are_not_recorded_afterwards() -> None:
    model, before = Model(), dict(vars(Part))
    with calls_recorded() as session:
        assert vars(Part)["__call__"] is before["__call__"]
        model()
    assert dict(vars(Part)) == before
    with contextlib.ExitStack() as later:
        again = Session([])
        again.start()
        later.callback(again.stop)
        model()
    assert len(trace_of(session)) == 1
    assert len(trace_of(again)) == 0


def test_classes_that_come_and_go_are_seen() -> None:
    with calls_recorded() as session:
        for i in range(20):
            made = type(f"Made{i}", (Part,), {})
            made()()
        assert Part()() == 0
    names = [name for name, _ in modules_of(trace_of(session))]
    assert names == [*(f"Made{i}" for i in range(20)), "Part"]


def test_after_an_assignment_to_call_the_next_class_brings_them_back() -> None:
    plain = Part.__call__
    with calls_recorded() as session:
        Part.__call__ = functools.partialmethod(plain)  # type: ignore[assignment, method-assign]
        Model()()
        Part.__call__ = plain  # type: ignore[method-assign]
        type("Next", (Part,), {})
        Model()()
    assert modules_of(trace_of(session)) == [("Model", None)]


def test_names_that_cannot_be_found_are_those_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Any:
        raise RuntimeError("no names")

    monkeypatch.setattr(CALLS.models, "names_of", fails)
    with calls_recorded(named=True) as session:
        Model(a=Part())()
    assert modules_of(trace_of(session)) == [("Model", None)]


def test_deep_recursion_ends_as_it_would() -> None:
    class Deep(Part):
        def forward(self, depth: int = 0, **_: Any) -> int:
            return self(depth + 1)

    limit = sys.getrecursionlimit()
    with calls_recorded() as session, pytest.raises(RecursionError):
        Deep()()
    assert sys.getrecursionlimit() == limit
    assert modules_of(trace_of(session)) == [("Deep", None)]


def test_where_there_is_no_such_framework_nothing_happens() -> None:
    NOTHING.watched.acquire()
    NOTHING.named.acquire()
    NOTHING.named.release()
    NOTHING.watched.release()


def test_a_forked_child_is_not_watched() -> None:
    from stepscope import _native

    with calls_recorded():
        child = os.fork()
        if not child:
            os._exit(_native.watch_calls(Part))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert _native.watch_calls(Part)
