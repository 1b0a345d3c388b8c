"""What can be recorded beyond names and times; each option adds overhead."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class StackMode(Enum):
    """How much of Python's stack is recorded."""

    NONE = "none"
    OPERATORS = "operators"  # the frames in which an operator starts
    CALLS = "calls"  # those, and every call with its time, except C functions that libraries call
    ALL_CALLS = "all-calls"  # C functions that libraries call, too

    def __bool__(self) -> bool:
        return self is not StackMode.NONE


class Option(NamedTuple, Generic[T]):
    """One recording option, declared by the source that implements it.

    A ``flag`` makes it an option of ``stepscope run``: a switch for a bool that is off by
    default, a choice for an enum, else a value of the default's type. ``stepscope run`` uses
    ``run_default``, if given, unless the flag says otherwise. ``parse`` makes a value of what a
    user gives, on the command line or in a program; it raises ValueError when it cannot.
    """

    name: str
    default: T
    flag: str = ""
    help: str = ""
    run_default: T | None = None
    parse: Callable[[object], T] | None = None
    implies: tuple[tuple[str, object], ...] = ()  # values of other options, unless given
    at_once: str = ""  # the trigger that starts with a run that has this option

    def value_of(self, given: object) -> T:
        """Return the value of what was given, a text from outside or a value in a program."""
        if self.parse is not None:
            return self.parse(given)
        if isinstance(self.default, Enum) and isinstance(given, str):
            return type(self.default)(given)
        return cast("T", given)


# Options that several sources share.
SHAPES = Option("shapes", False, "--shapes", "also record operator inputs")
MEMORY = Option("memory", False, "--memory", "also record memory allocations")
HOST = Option("host", True)  # the frameworks' operators
DEVICE = Option("device", False, run_default=True)  # kernels and copies, where there is a device
WORKERS = Option(
    "workers",
    False,
    "--workers",
    "also record each fetch, item and collation of data loaders; child processes are recorded "
    "without it",
)
MODULES = Option("modules", False, "--modules", "record calls of modules, too")
MODEL_CALLS = Option("model_calls", False, run_default=True)
SAMPLED_INPUTS = Option("sampled_inputs", False, run_default=True)  # of one operator in 128
HELD_MEMORY = Option("held_memory", False, run_default=True)  # a sample of it, with stacks
LOADER_WORKERS = Option("loader_workers", False, run_default=True)  # how many a loader has
STACKS = Option(
    "stacks",
    StackMode.NONE,
    "--stacks",
    "record the Python stack of each operator, or also all calls of Python functions; all-calls "
    "adds the calls of C functions that libraries make (default: none)",
)

AS_TORCH = Option("named_as_torch", False)
"""Whether calls have the names that torch.profiler gives them, our own those of torch's."""

INSIDE = Option("inside", False)
"""Whether another process reads the recording: this one builds, keeps and reads nothing itself."""

SHARED_OPTIONS: tuple[Option[bool], ...] = (
    *(SHAPES, MEMORY, HOST, DEVICE, WORKERS, MODULES, MODEL_CALLS),
    *(SAMPLED_INPUTS, HELD_MEMORY, LOADER_WORKERS, INSIDE),
)


class RecordOptions:
    """The options of one recording: the value of each one that was given, by name."""

    def __init__(self, **values: object) -> None:
        """Take the values; ``make_sources`` rejects a name that no source has declared."""
        self._values = values

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._values)

    def __getitem__(self, option: Option[T]) -> T:
        """Return the given value, or the option's default."""
        given = self._values
        return option.value_of(given[option.name]) if option.name in given else option.default

    def given(self, name: str) -> object:
        """Return a value as it was given."""
        return self._values[name]

    def but(self, **values: object) -> RecordOptions:
        """Return a copy with some values changed."""
        return RecordOptions(**{**self._values, **values})

    def __repr__(self) -> str:
        return f"RecordOptions({', '.join(f'{k}={v!r}' for k, v in self._values.items())})"
