"""Enums that a framework has as well: members of both are taken for each other by their names."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

_E = TypeVar("_E", bound=Enum)


class NamedAlike(Enum):
    """An enum whose members equal those of the framework's own, which need not be imported."""

    def __eq__(self, other: object) -> bool:
        """Compare with ours, and with those of another enum of that name."""
        if isinstance(other, Enum) and type(other).__name__ == type(self).__name__:
            return other.name == self.name
        return NotImplemented

    __hash__ = Enum.__hash__  # by the name, as theirs: the two find each other in a dict


def is_alike(value: object, kind: type[Enum]) -> bool:
    """Tell whether a value is of that enum, or of the framework's own of that name."""
    return isinstance(value, kind) or type(value).__name__ == kind.__name__


def member_of(kind: type[_E], value: object, role: str) -> _E:
    """Take our members, and the framework's own by their name; ``role`` says what it is for."""
    if isinstance(value, kind):
        return value
    name = getattr(value, "name", None)
    if is_alike(value, kind) and isinstance(name, str) and name in kind.__members__:
        return kind[name]
    choices = ", ".join(kind.__members__)
    raise TypeError(f"{role} {value!r} is not a {kind.__name__}; choose from {choices}")
