"""The interface of a source of events, and the registry of all sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from stepscope.record import budget
from stepscope.record.options import SHARED_OPTIONS, Option, RecordOptions
from stepscope.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured


_PACKAGE = __name__.partition(".")[0]


class Stage(IntEnum):
    """The order in which sources start, and in reverse stop; within a stage, as registered."""

    DEVICE = 0  # first: a recorded operator may launch device work
    OPERATORS = 1
    RANGES = 2
    PYTHON = 3  # after those that start by Python calls, which are not the program's
    PROCESSES = 4  # child processes start when everything here is on


class Burden(Enum):
    """What costs a recording most: an overhead budget turns it off."""

    CALLS = budget.CALLS
    MODULES = budget.MODULES
    SAMPLES = budget.SAMPLES
    OPERATORS = budget.OPERATORS


class Source(ABC):
    """Something that can be recorded.

    A source either writes into the recorder while it is started, or keeps events of its own and
    hands them over in ``collect``. Its methods are called in the order open, prepare, start, stop,
    collect, close; start to collect may repeat.
    """

    name: str
    stage: ClassVar[Stage] = Stage.RANGES
    burden: ClassVar[Burden | None] = None
    when: ClassVar[Option[Any] | None] = None  # the option that enables it; None: always
    options: ClassVar[tuple[Option[Any], ...]] = ()  # further options that only this source reads

    lost: int = 0  # events that the source dropped
    devices: Sequence[Mapping[str, Any]] = ()  # what it knows about the machine's devices
    code_folders: Sequence[str] = ()  # folders of the files in its stacks

    @classmethod
    def made_for(cls, _options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        """Make one for the options; ``limit`` bounds what it keeps itself."""
        return cls()

    def open(self) -> None:  # noqa: B027 - few need it
        """Prepare for a run, whose steps may not all be recorded; a second call does nothing."""

    def prepare(self) -> None:  # noqa: B027
        """Do all slow work, so that ``start`` is quick."""

    @abstractmethod
    def start(self) -> None:
        """Begin to record."""

    @abstractmethod
    def stop(self) -> None:
        """End recording."""

    def collect(self) -> Captured | None:
        """Return the events that the source kept since ``start``; None if the recorder has them."""
        return None

    def hand_over(self) -> Callable[[], Captured | None]:
        """Let go of what ``collect`` would return; the function makes columns of it, later.

        It may be called on another thread, and while the source records again.
        """
        part = self.collect()
        return lambda: part

    def so_far(self) -> Captured | None:
        """Return the events kept since ``start``, while the source goes on."""
        return None

    def refine(self, captured: Captured) -> Captured:
        """Return the recording of all sources, completed by what this source knows."""
        return captured

    @classmethod
    def recover(cls, _remains: LeftBehind) -> Captured | None:
        """Return the events that such a source left in the stream of an ended process."""
        return None

    @classmethod
    def described_by(cls, remains: LeftBehind) -> str:
        """Return what such a source said of itself in an ended process."""
        return remains.noted_by_sources("sources", str).get(cls.name, "")

    @classmethod
    def lost_by(cls, remains: LeftBehind) -> int:
        """Return how many events such a source dropped in an ended process."""
        return max(remains.noted_by_sources("lost", int).get(cls.name, 0), 0)

    @classmethod
    def refine_recovered(cls, captured: Captured, _remains: LeftBehind) -> Captured:
        """Return an ended process's recording, completed as ``refine`` would have."""
        return captured

    def close(self) -> None:  # noqa: B027
        """Clean up after the run; a second call does nothing."""

    def parallelism(self) -> Mapping[str, float]:
        """Return how many threads or workers the program uses, as far as this source knows."""
        return {}

    def job(self) -> Mapping[str, Any]:
        """Return this process's place in a job, as torch's ``distributedInfo`` has it."""
        return {}

    def describe(self) -> str:
        """Return in a few words what the source uses, and why; may be empty."""
        return ""

    def describe_running(self) -> str:
        """Return the description while it records, for a reader of the stream after a crash."""
        return self.describe()

    def overhead_ns(self) -> float:
        """Return the calibrated cost of one event; 0 when unknown, or when it is a range's."""
        return 0.0


# Each entry returns classes; their modules are imported when it is called.
SOURCES: Registry[Callable[[], Iterable[type[Source]]]] = Registry(early=True)


class SourceGroup:
    """An entry of SOURCES whose options can be listed without importing its sources.

    `stepscope run` needs the options in every start, and the sources only in the program.
    """

    def __init__(
        self,
        options: Sequence[Option[Any]],
        load: Callable[[], Iterable[type[Source]]],
        check: Callable[[RecordOptions], object] | None = None,
    ) -> None:
        """Take what the sources declare, beyond what several share, and what imports them.

        ``check`` raises StepscopeError for options that cannot be met on this machine.
        """
        self.options = options
        self.check = check
        self._load = load

    def __call__(self) -> Iterable[type[Source]]:
        return self._load()


def with_options(
    *options: Option[Any], check: Callable[[RecordOptions], object] | None = None
) -> Callable[[Callable[[], Iterable[type[Source]]]], SourceGroup]:
    """Make a group of sources of a function that imports them."""
    return partial(SourceGroup, options, check=check)


def check_options(options: RecordOptions) -> None:
    """Raise StepscopeError for options that cannot be met; the program has not started yet."""
    for group in SOURCES:
        if isinstance(group, SourceGroup) and group.check is not None:
            group.check(options)


def known_options() -> dict[str, Option[Any]]:
    options = list(SHARED_OPTIONS)
    for load in SOURCES:
        options += load.options if isinstance(load, SourceGroup) else declared_options(load())
    return {option.name: option for option in options}


def declared_options(classes: Iterable[type[Source]]) -> list[Option[Any]]:
    """Return the options that some sources read."""
    return [
        option
        for source in classes
        for option in (*([source.when] if source.when else []), *source.options)
    ]


def make_sources(
    options: RecordOptions | None = None, limit: MemoryLimit | None = None
) -> list[Source]:
    """Return the sources that the options enable, in the order in which they start.

    Sources of a framework that is not imported yet wait for it. ``limit`` applies to each source
    and to each child process.
    """
    options = options or RecordOptions()
    by_name = known_options()
    if unknown := sorted(options.names - by_name.keys()):
        raise TypeError(
            f"{unknown[0]!r} is not a recording option; use one of {', '.join(sorted(by_name))}"
        )
    return made_sources(source_classes(), options, limit)


def made_sources(
    classes: Iterable[type[Source]], options: RecordOptions, limit: MemoryLimit | None
) -> list[Source]:
    """Make those of the sources that the options enable."""
    enabled = [source for source in classes if source.when is None or options[source.when]]
    return [source.made_for(options, limit) for source in enabled]


def source_classes() -> list[type[Source]]:
    """Return the classes of all sources, in the order in which they start."""
    return in_order(source for load in SOURCES for source in load())


def in_order(classes: Iterable[type[Source]]) -> list[type[Source]]:
    """Sort sources into the order in which they start."""
    return sorted(classes, key=lambda source: source.stage)


def places_of_extensions(options: RecordOptions) -> list[str]:
    """Return, as ``module:name``, the enabled sources that other packages bring."""
    theirs = [load for load in SOURCES if not isinstance(load, SourceGroup)]
    return [
        f"{source.__module__}:{source.__qualname__}"
        for source in in_order(source for load in theirs for source in load())
        if source.when is None or options[source.when]
    ]


def described(sources: Sequence[Source]) -> Mapping[str, Any]:
    """Return what sources know while they record: fields of a TraceInfo, and the job."""
    return {
        "sources": {source.name: says for source in sources if (says := source.describe_running())},
        "devices": [dict(device) for source in sources for device in source.devices],
        "code_folders": [folder for source in sources for folder in source.code_folders],
        "parallelism": {k: v for source in sources for k, v in source.parallelism().items()},
        "job": {k: v for source in sources for k, v in source.job().items()},
        "lost": {source.name: source.lost for source in sources if source.lost},
    }
