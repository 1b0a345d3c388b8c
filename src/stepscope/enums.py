"""Enums that mirror a framework's own: members with the same name are interchangeable."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import SupportsInt, TypeVar, cast

_E = TypeVar("_E", bound=Enum)


class NamedAlike(Enum):
    """An enum whose members equal those of the framework's own enum of the same name."""

    def __eq__(self, other: object) -> bool:
        """Compare by name with members of this enum and of any enum with the same class name."""
        if isinstance(other, Enum) and type(other).__name__ == type(self).__name__:
            return other.name == self.name
        return NotImplemented

    __hash__ = Enum.__hash__  # by name, like theirs: both find the same dict entry


class NumberedAlike(IntEnum):
    """An enum whose members equal those of a framework's own, written in C++, and print as they do.

    They equal the framework's only on the left of ``==``: such enums equal nothing but themselves.
    """

    def __eq__(self, other: object) -> bool:
        """Compare with numbers, and with members of any enum with the same class name."""
        return int(self) == _number_of(self, other)

    def __ne__(self, other: object) -> bool:
        return int(self) != _number_of(self, other)

    __hash__ = IntEnum.__hash__
    __str__ = Enum.__str__
    __format__ = Enum.__format__


def _number_of(member: NumberedAlike, other: object) -> object:
    if isinstance(other, int) or type(other).__name__ != type(member).__name__:
        return other
    return int(cast("SupportsInt", other))


def is_alike(value: object, kind: type[Enum]) -> bool:
    """Return whether a value belongs to that enum or to the framework's own of the same name."""
    return isinstance(value, kind) or type(value).__name__ == kind.__name__


def member_of(kind: type[_E], value: object, role: str) -> _E:
    """Return our member for one of ours or the framework's; ``role`` names it in the error."""
    if isinstance(value, kind):
        return value
    name = getattr(value, "name", None)
    if is_alike(value, kind) and isinstance(name, str) and name in kind.__members__:
        return kind[name]
    choices = ", ".join(kind.__members__)
    raise TypeError(f"{role} {value!r} is not a {kind.__name__}; use one of {choices}")
