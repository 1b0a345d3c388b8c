"""What a source of events is, and the registry of those that there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from stepscope.record.options import SHARED_OPTIONS, Option, RecordOptions
from stepscope.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.trace.schema import Captured


class Stage(IntEnum):
    """When a source starts and stops, among the others; within a stage as they were registered."""

    DEVICE = 0  # first: an operator that is recorded may launch work
    OPERATORS = 1
    RANGES = 2
    PYTHON = 3  # after those that start by calls in Python: they are not the program's
    PROCESSES = 4  # children are told to record when all is on here


class Source(ABC):
    """Something that can be recorded.

    A source either writes into the recorder while it is started, or keeps events of its own and
    hands them over in ``collect``. Its methods are called in the order open, prepare, start, stop,
    collect, close; start to collect may repeat.
    """

    name: str
    stage: ClassVar[Stage] = Stage.RANGES
    when: ClassVar[Option[Any] | None] = None  # it is wanted where this is asked for; None: always
    options: ClassVar[tuple[Option[Any], ...]] = ()  # what else it understands, and nobody else

    lost: int = 0  # events that it saw and could not keep
    devices: Sequence[Mapping[str, Any]] = ()  # what it knows of the machine's devices
    code_folders: Sequence[str] = ()  # where the files are that its stacks name

    @classmethod
    def made_for(cls, _options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        """Make one, as the options ask; ``limit`` is what it may keep of its own."""
        return cls()

    def open(self) -> None:  # noqa: B027 - few have to do with it
        """Hear that a run begins, with steps that may not be recorded; asked again, do nothing."""

    def prepare(self) -> None:  # noqa: B027
        """Do everything slow, so that ``start`` is quick."""

    @abstractmethod
    def start(self) -> None:
        """Begin to record."""

    @abstractmethod
    def stop(self) -> None:
        """End recording."""

    def collect(self) -> Captured | None:
        """Return what the source itself kept since ``start``; None when the recorder has it."""
        return None

    def close(self) -> None:  # noqa: B027
        """Hear that the run has ended; asked again, do nothing."""

    def describe(self) -> str:
        """Say in a few words what is used, and why; nothing where there is nothing to say."""
        return ""

    def overhead_ns(self) -> float:
        """Return the calibrated cost of one event; 0 when unknown, or when it is a range's."""
        return 0.0


# Each entry returns classes, whose modules it imports when it is called.
SOURCES: Registry[Callable[[], Iterable[type[Source]]]] = Registry(early=True)


def known_options() -> dict[str, Option[Any]]:
    """Return all that can be asked for, by name."""
    options = list(SHARED_OPTIONS)
    for source in _sources():
        options += [*([source.when] if source.when else []), *source.options]
    return {option.name: option for option in options}


def make_sources(
    options: RecordOptions | None = None, limit: MemoryLimit | None = None
) -> list[Source]:
    """Return the sources that the options ask for, in the order in which they start.

    A framework that is not imported is waited for. ``limit`` holds for what each source, and each
    child process, keeps.
    """
    options = options or RecordOptions()
    known = known_options()
    if unknown := sorted(options.names - known.keys()):
        raise TypeError(
            f"{unknown[0]!r} is no option of a recording; there are {', '.join(sorted(known))}"
        )
    return [
        source.made_for(options, limit)
        for source in _sources()
        if source.when is None or options[source.when]
    ]


def _sources() -> list[type[Source]]:
    return sorted((each for load in SOURCES for each in load()), key=lambda each: each.stage)
