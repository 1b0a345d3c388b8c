"""record_function: any text is a name, and the object is an ordinary one."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from recording import parents, ranges_recorded, trace_of
from stepscope import Session, record_function
from stepscope._native import recording

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session() -> Iterator[Session]:
    with ranges_recorded() as running:
        yield running
    assert not recording()


def names(session: Session) -> list[str]:
    session.stop()
    return list(trace_of(session).names())


# ---- names and args

HOSTILE = [
    "",
    " ",
    "a\0b",
    "\0",
    'quote " backslash \\ slash /',
    "line\nbreak\r\ttab",
    "</script><script>alert(1)</script>",
    "naïve 模型 🚀 \u202e \ufeff \uffff",
    "\U0010ffff",
    "x" * 10_000,
    "é" * 10_000,
    "aten::add\0Tensor",
    "ProfilerStep#",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:30]))
def test_any_text_is_a_name(name: str, session: Session) -> None:
    with record_function(name), record_function("inside"):
        pass
    session.stop()
    assert parents(trace_of(session)) == [(name, None), ("inside", name)]


@pytest.mark.parametrize("text", HOSTILE[1:], ids=lambda name: ascii(name[:30]))
def test_any_text_goes_along_as_args(text: str, session: Session) -> None:
    with record_function("with", text), record_function("without"):
        pass
    session.stop()
    trace = trace_of(session)
    assert [trace.slices.args.of_row(row, trace.strings) for row in (0, 1)] == [{"args": text}, {}]


def test_a_lone_surrogate_is_replaced_and_still_recorded(session: Session) -> None:
    with record_function("a\ud800b", "c\udfff"):
        pass
    session.stop()
    trace = trace_of(session)
    assert list(trace.names()) == ["a?b"]
    assert trace.slices.args.of_row(0, trace.strings) == {"args": "c?"}


def test_a_name_of_a_class_of_its_own_is_a_name(session: Session) -> None:
    class Name(str):
        __slots__ = ()

    with record_function(Name("mine")):
        pass
    assert names(session) == ["mine"]


def test_many_names_and_few_ids_do_not_mix(session: Session) -> None:
    """More names than the threads' caches hold, most of equal length, head and tail."""
    made = [f"same head {i:06d} same tail" for i in range(5_000)]
    for name in made:
        with record_function(name):
            pass
    assert names(session) == made


@pytest.mark.parametrize("name", [None, 3, b"bytes", ["list"]], ids=repr)
def test_a_name_that_is_no_text_is_named(name: Any) -> None:
    import re

    with pytest.raises(TypeError, match=re.escape(repr(name))):
        record_function(name)


def test_args_that_are_no_text_are_named() -> None:
    wrong: Any = {"batch": 3}
    with pytest.raises(TypeError, match=r"\{'batch': 3\}.*str"):
        record_function("a", wrong)


@pytest.mark.parametrize("arguments", [(), ("a", "b", "c")], ids=len)
def test_too_few_and_too_many_arguments(arguments: tuple[str, ...]) -> None:
    with pytest.raises(TypeError):
        record_function(*arguments)
    with pytest.raises(TypeError, match="name"):
        record_function(nme="a")  # type: ignore[call-arg]


def test_arguments_by_keyword() -> None:
    scope = record_function(args="b", name="a")
    assert (scope.name, scope.args) == ("a", "b")
    assert record_function("a").args is None
    assert record_function("a", None).args is None


# ---- an ordinary object


def test_it_can_be_subclassed(session: Session) -> None:
    class Counted(record_function):
        entered = 0

        def __enter__(self) -> Counted:
            self.entered += 1
            return super().__enter__()

    scope = Counted("counted")
    for _ in range(3):
        with scope:
            pass
    assert scope.entered == 3
    assert names(session) == ["counted"] * 3


def test_it_shows_its_name() -> None:
    assert repr(record_function("a'b")) == """record_function("a'b")"""


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda scope: pickle.loads(pickle.dumps(scope))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_models_that_hold_a_range_can_be_copied_and_pickled(duplicate: Any) -> None:
    """As with torch's: users keep ranges as attributes of modules that they deepcopy."""
    other = duplicate(record_function("a", "b"))
    assert (type(other), other.name, other.args) == (record_function, "a", "b")


def test_many_short_lived_ranges_leave_nothing_behind(session: Session) -> None:
    import sys

    name = "a name of its own"
    before = sys.getrefcount(name)
    for _ in range(1_000):
        with record_function(name):
            pass
    assert sys.getrefcount(name) <= before + 1
