"""Advice in the words of the framework whose operators a program runs."""

from __future__ import annotations

from stepscope.analysis.host.landmarks import LANDMARKS
from stepscope.analysis.remedies import ADVICE, Remedy
from stepscope.analysis.shared import shared
from stepscope.analysis.tree import distinct_ids
from stepscope.trace.model import Trace


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
