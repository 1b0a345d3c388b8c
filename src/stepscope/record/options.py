"""What can be asked of a recording beyond names and times; each costs something."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")


class StackMode(Enum):
    """How much of Python's stack is recorded."""

    NONE = "none"
    OPERATORS = "operators"  # the frames in which an operator starts
    CALLS = "calls"  # those, and every call with its time, but of functions in C by libraries
    ALL_CALLS = "all-calls"  # those of functions in C by libraries, too

    def __bool__(self) -> bool:
        """Tell whether there is something to record."""
        return self is not StackMode.NONE


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One thing to ask for, declared by the source that understands it.

    ``stepscope run`` has the flag, where one is named: a switch for a bool that is off by default,
    a choice for an enum, else a value of the default's type. Without a flag it asks for
    ``run_default``, where that is given.
    """

    name: str
    default: T
    flag: str = ""
    help: str = ""
    run_default: T | None = None


# What several sources understand.
SHAPES = Option("shapes", False, "--shapes", "record operators' inputs, too")
MEMORY = Option("memory", False, "--memory", "record allocations, too")
HOST = Option("host", True)  # the frameworks' operators
DEVICE = Option("device", False, run_default=True)  # kernels and copies, where there is a device
WORKERS = Option("workers", False, "--workers", "record DataLoader workers and other children, too")
SHARED_OPTIONS: tuple[Option[bool], ...] = (SHAPES, MEMORY, HOST, DEVICE, WORKERS)


class RecordOptions:
    """What is asked of one recording: the value of each option that was given, by its name."""

    def __init__(self, **values: object) -> None:
        """Take the values; ``make_sources`` refuses a name that no source has declared."""
        self._values = values

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the options that were given."""
        return frozenset(self._values)

    def __getitem__(self, option: Option[T]) -> T:
        """Return what was asked for, or the option's default."""
        return self._values.get(option.name, option.default)  # type: ignore[return-value]

    def but(self, **values: object) -> RecordOptions:
        """Return the same with some other values."""
        return RecordOptions(**{**self._values, **values})

    def __repr__(self) -> str:
        """Show it as it was made."""
        return f"RecordOptions({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"
