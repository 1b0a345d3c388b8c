"""Advice in the words of the framework whose operators a program runs."""

from __future__ import annotations

from stepscope.analysis.base.landmarks import LANDMARKS
from stepscope.analysis.base.remedies import ADVICE, Remedy
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import distinct_ids
from stepscope.trace.model import Trace


@shared
def frameworks_of(trace: Trace) -> frozenset[str]:
    """Return the frameworks that a program imported, or whose operators it ran."""
    return frozenset(trace.info.versions) | _frameworks_with_operators(trace)


def advise(trace: Trace, remedy: Remedy, default: str | None = None) -> str:
    """Return the words for a remedy: the framework's own, else ``default``, else the usual ones.

    Of several frameworks that are imported, the one whose operators the trace has speaks.
    """
    of_loops = [entry() for entry in ADVICE if entry().loop_in]
    for advice in of_loops:
        if remedy in advice.words and _has_frames_in(trace, advice.loop_in):
            return advice.words[remedy]
    all_advice = [entry() for entry in ADVICE if not entry().loop_in]
    running = [
        advice for advice in all_advice if advice.framework in _frameworks_with_operators(trace)
    ]
    imported = [advice for advice in all_advice if advice.framework in trace.info.versions]
    speaking = [advice for advice in imported if advice in running] or imported or running
    if speaking and remedy in speaking[0].words:
        return speaking[0].words[remedy]
    if default is not None:
        return default
    return next(advice.words[remedy] for advice in all_advice if advice.is_assumed)


@shared
def _files(trace: Trace) -> tuple[str, ...]:
    return tuple(trace.strings.texts_of(distinct_ids(trace.stacks.frame).tolist()))


def _has_frames_in(trace: Trace, file: str) -> bool:
    return any(frame.startswith(file) for frame in _files(trace))


@shared
def _frameworks_with_operators(trace: Trace) -> frozenset[str]:
    """Return the frameworks whose operators a trace has, judged by their names."""
    names = trace.strings.texts_of(distinct_ids(trace.slices.name).tolist())
    frameworks: set[str] = set()
    for framework in (entry() for entry in LANDMARKS):
        if any(name.startswith(framework.operator_prefixes) for name in names):
            frameworks |= framework.with_operators
    return frozenset(frameworks)
