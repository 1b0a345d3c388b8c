"""Converts event types to Paddle's own, if the program has imported Paddle.

Paddle's types are members of an enum in C++ that equal nothing else. So nodes have members of a
class derived from Paddle's: they equal Paddle's members and ours, in either order, and work as keys
in Paddle's code.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from enum import IntEnum


def of_paddle(ours: type[IntEnum]) -> Any:
    """Return Paddle's enum of the same name; None if the program has not imported Paddle."""
    return getattr(sys.modules.get("paddle.base.core"), ours.__name__, None)


def own_of_paddle(member: IntEnum) -> Any:
    """Return Paddle's own member; ours if Paddle is not imported."""
    paddles = of_paddle(type(member))
    return member if paddles is None else getattr(paddles, member.name)


def as_paddles(member: IntEnum) -> Any:
    """Return a member that equals Paddle's and ours; ours itself if Paddle is not imported."""
    paddles = of_paddle(type(member))
    return member if paddles is None else _alike(paddles, member)


@functools.cache
def _alike(paddles: Any, member: IntEnum) -> Any:
    try:
        return _derived(paddles)(int(member))
    except TypeError:  # this Paddle's enums are Python's
        return getattr(paddles, member.name)


@functools.cache
def _derived(paddles: Any) -> type:
    def equals(self: Any, other: object) -> bool:
        is_one = type(other).__name__ == paddles.__name__
        return is_one and int(self) == int(cast("Any", other))

    return type(
        paddles.__name__,
        (paddles,),
        {
            "__module__": paddles.__module__,
            "__eq__": equals,
            "__ne__": lambda self, other: not equals(self, other),
            "__hash__": paddles.__hash__,
            "__reduce__": lambda self: (getattr, (paddles, self.name)),
        },
    )
