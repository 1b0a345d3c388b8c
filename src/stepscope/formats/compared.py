"""``stepscope.diff``: two sides compared, each a trace, a file of any format, or several."""

from __future__ import annotations

import os
from collections.abc import Iterable

from stepscope.analysis.compare.change_points import LEAST_EFFECT
from stepscope.analysis.compare.diff import diff_traces
from stepscope.analysis.compare.model import Diff
from stepscope.formats.base.registry import read_trace
from stepscope.trace.model import Trace

OneTrace = Trace | str | os.PathLike[str]
Traces = OneTrace | Iterable[OneTrace]


def diff(before: Traces, after: Traces, *, least_effect: float = LEAST_EFFECT) -> Diff:
    """Compare two sides: is a step slower, and why.

    A side is a trace or the path of one, in any format, or several: runs of the same program. Five
    runs a side, recorded alternately, tell a change of the program from one of the machine.
    ``least_effect`` is the smallest change that matters, 0.01 for 1 %.
    """
    sides = [_traces(word, given) for word, given in (("before", before), ("after", after))]
    labels = ([name for name, _ in sides[0]], [name for name, _ in sides[1]])
    traces = ([trace for _, trace in sides[0]], [trace for _, trace in sides[1]])
    return diff_traces(*traces, labels=labels, least_effect=least_effect)


def _traces(word: str, given: Traces) -> list[tuple[str, Trace]]:
    if isinstance(given, Trace | str | os.PathLike):
        given = [given]
    if not isinstance(given, Iterable):
        raise TypeError(f"{word} must be a trace, a path or several of them, not {given!r}")
    traces = []
    for number, item in enumerate(given):
        if isinstance(item, Trace):
            traces.append((f"{word} {number + 1}", item))
        elif isinstance(item, str | os.PathLike):
            traces.append((os.fspath(item), read_trace(item)))
        else:
            raise TypeError(f"{word} must be a trace, a path or several of them, not {item!r}")
    if not traces:
        raise ValueError(f"{word} has no trace: give at least one")
    return traces
