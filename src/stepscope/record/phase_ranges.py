"""Wrappers for the sources of phases: they record calls as ranges that state their part."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.trace.keys import stated_fragment
from stepscope.trace.kinds import SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = Callable[..., Any]

RANGE_KIND = int(SliceKind.RANGE)  # a plain number, as it is passed for every range
FORWARD = stated_fragment("Forward")
BACKWARD = stated_fragment("Backward")
BACKWARD_NAME = "Gradient Backward"
OPTIMIZATION = stated_fragment("Optimization")
DATALOADER = stated_fragment("Dataloader")


def never() -> bool:
    """Return False: nothing else marks this phase."""
    return False


class ByClass:
    """Wraps methods so that each call is a range named after the object's class."""

    def __init__(self, fragment: str, marked: Callable[[], bool]) -> None:
        """Take a function that returns True while something else marks the calls."""
        self._fragment = fragment
        self._marked = marked

    def __call__(self, plain: _Function) -> _Function:
        fragment, marked = self._fragment, self._marked

        @functools.wraps(plain)
        def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            if marked():
                return plain(self, *args, **kwargs)
            handle = begin_slice(RANGE_KIND, type(self).__name__, fragment)
            try:
                return plain(self, *args, **kwargs)
            finally:
                end_slice(handle)

        return method


class Outermost:
    """Wraps functions so that the outermost call is a range; nested calls add none."""

    def __init__(self, name: str, fragment: str, marked: Callable[[], bool]) -> None:
        """Take the ranges' name, and a function that is True while something else marks them."""
        self._name = name
        self._fragment = fragment
        self._marked = marked
        self._here = _Here()

    def __call__(self, plain: _Function) -> _Function:
        name, fragment, marked, here = self._name, self._fragment, self._marked, self._here

        @functools.wraps(plain)
        def function(*args: Any, **kwargs: Any) -> Any:
            if here.inside or marked():
                return plain(*args, **kwargs)
            here.inside = True
            handle = begin_slice(RANGE_KIND, name, fragment)
            try:
                return plain(*args, **kwargs)
            finally:
                end_slice(handle)
                here.inside = False

        return function


class _Here(threading.local):
    inside = False
