"""Patches: made for the first, undone after the last, and never in a chain twice."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Callable


def plain() -> str:
    return "plain"


def around(word: str) -> Callable[[Any], Any]:
    def wrapper(function: Any) -> Any:
        return lambda: f"{word}({function()})"

    return wrapper


@pytest.fixture
def owner() -> Any:
    return SimpleNamespace(function=plain)


@pytest.fixture
def patches(owner: Any) -> Patches:
    return Patches(lambda patches: patches.wrap(owner, "function", around("ours")))


def test_made_for_the_first_and_undone_after_the_last(owner: Any, patches: Patches) -> None:
    patches.acquire()
    patches.acquire()
    assert (owner.function(), patches.in_use) == ("ours(plain)", True)
    patches.release()
    assert (owner.function(), patches.in_use) == ("ours(plain)", True)
    patches.release()
    assert (owner.function, patches.in_use) == (plain, False)
    patches.release()  # one too many is harmless
    patches.acquire()
    assert owner.function() == "ours(plain)"
    patches.release()


def test_what_somebody_wrapped_is_left_in_their_chain_and_not_wrapped_again(
    owner: Any, patches: Patches
) -> None:
    patches.acquire()
    ours = owner.function
    owner.function = around("theirs")(ours)
    patches.release()
    assert (owner.function(), patches.in_use) == ("theirs(ours(plain))", False)
    for _ in range(2):
        patches.acquire()
        assert (owner.function(), patches.in_use) == ("theirs(ours(plain))", True)
        patches.release()
    owner.function = ours  # they leave it as they found it, while we are in use or not
    patches.acquire()
    assert owner.function() == "ours(plain)"
    patches.release()
    assert owner.function is plain


def test_a_chain_that_has_gone_is_begun_anew(owner: Any, patches: Patches) -> None:
    patches.acquire()
    owner.function = around("theirs")(owner.function)
    patches.release()
    owner.function = plain
    patches.acquire()
    assert owner.function() == "ours(plain)"
    patches.release()
    assert owner.function is plain


def test_an_inherited_attribute_is_inherited_again(patches: Patches) -> None:
    class Base:
        def method(self) -> str:
            return "plain"

    class Derived(Base):
        pass

    inherited = Patches(lambda p: p.wrap(Derived, "method", lambda f: lambda self: f"<{f(self)}>"))
    inherited.acquire()
    assert (Derived().method(), Base().method()) == ("<plain>", "plain")
    inherited.release()
    assert "method" not in vars(Derived)


def test_one_that_fails_leaves_nothing_behind(owner: Any) -> None:
    def apply(patches: Patches) -> None:
        patches.wrap(owner, "function", around("ours"))
        raise ZeroDivisionError

    failing = Patches(apply)
    with pytest.raises(ZeroDivisionError):
        failing.acquire()
    assert (owner.function, failing.in_use) == (plain, False)


def test_a_forked_child_is_clean(owner: Any, patches: Patches) -> None:
    patches.acquire()
    pid = os.fork()
    if not pid:
        os._exit(0 if owner.function is plain and not patches.in_use else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert owner.function() == "ours(plain)"
    patches.release()
