"""The registry of advice: what a framework's users call each remedy that a finding proposes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from stepscope.analysis.host.landmarks import LANDMARKS
from stepscope.analysis.shared import shared
from stepscope.analysis.tree import distinct_ids
from stepscope.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.trace.model import Trace


class Remedy(Enum):
    """What a framework has words of its own for."""

    COMPILER = auto()  # which fuses operators: its name
    FEWER_LAUNCHES = auto()  # a compiler that makes graphs of the device's, before those
    FUSED_ATTENTION = auto()
    NO_GRAPH = auto()  # around an inference
    NO_GRADIENTS = auto()  # for a model that is not trained
    FLOAT32 = auto()  # the type's name
    WHOLE_ARRAYS = auto()  # instead of lists
    BUCKETS = auto()  # in which gradients are exchanged
    PINNED_MEMORY = auto()  # the argument of a loader
    CHECKPOINTS = auto()
    FREED_GRADIENTS = auto()
    SMALLER_WORKSPACE = auto()
    LESS_UNUSED = auto()  # of what an allocator holds


@dataclass(frozen=True, slots=True)
class Advice:
    """The words of one framework."""

    framework: str  # as its package is called
    words: Mapping[Remedy, str]
    is_assumed: bool = False  # where a trace does not tell its framework


# Each entry returns that of one framework, imported when asked.
ADVICE: Registry[Callable[[], Advice]] = Registry()


@shared
def frameworks_of(trace: Trace) -> frozenset[str]:
    """Return which frameworks a program uses: what it has imported, or runs operators of."""
    return frozenset(trace.info.versions) | _with_operators_in(trace)


def advise(trace: Trace, remedy: Remedy, default: str | None = None) -> str:
    """Return the words for a remedy: the framework's, else ``default``, else the usual one's.

    Of several frameworks that are imported, the one whose operators the trace has speaks.
    """
    known = [entry() for entry in ADVICE]
    running = [each for each in known if each.framework in _with_operators_in(trace)]
    imported = [each for each in known if each.framework in trace.info.versions]
    speaking = [each for each in imported if each in running] or imported or running
    if speaking and remedy in speaking[0].words:
        return speaking[0].words[remedy]
    if default is not None:
        return default
    return next(each.words[remedy] for each in known if each.is_assumed)


@shared
def _with_operators_in(trace: Trace) -> frozenset[str]:
    """Return the frameworks whose operators a trace has, as far as names tell."""
    names = trace.strings.texts_of(distinct_ids(trace.slices.name).tolist())
    found: set[str] = set()
    for known in (entry() for entry in LANDMARKS):
        if any(name.startswith(known.operator_prefixes) for name in names):
            found |= known.with_operators
    return frozenset(found)
