"""Folded stacks: one line per stack, as FlameGraph, speedscope and inferno read them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import numpy as np

from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.code.stacks import KnownStacks, stack_of_events
from stepscope.analysis.host.averages import Averages, single_events
from stepscope.errors import UnsupportedError
from stepscope.formats.base.files import output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sampled import SampledStacks, rows_by_track, thread_titles
from stepscope.trace.model import NO_STACK, Int64, Stacks, Trace
from stepscope.trace.strings import Strings

METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
    "self_device_time_total",
)
"""What a stack's number measures; all but the first are device time."""

_NS_OF_US = 1_000

# Spaces separate a stack from its number, semicolons frames, line ends stacks.
_BREAKING = re.compile(r"[\s;\x00-\x1f\x7f]")


def export_folded(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write the sampled stacks, each thread's under its name; without samples, the events'."""
    if not len(trace.samples):
        export_stacks(trace, path, progress)
        return
    with output_file(path) as sink:
        sink.write("".join(_sampled_lines(trace)).encode())
    if progress is not None:
        progress(len(trace.samples), len(trace.samples))


def _sampled_lines(trace: Trace) -> Iterator[str]:
    samples, stacks, titles = trace.samples, SampledStacks(trace), thread_titles(trace)
    for track, rows in rows_by_track(samples.track).items():
        ns = np.bincount(stacks.of_sample[rows], samples.duration_ns[rows], minlength=len(stacks))
        for number in np.flatnonzero(ns >= _NS_OF_US).tolist():
            frames = (titles[track], *stacks.frames(number))
            yield f"{';'.join(map(_clean, frames))} {int(ns[number]) // _NS_OF_US}\n"


def export_stacks(
    trace: Trace,
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    metric: str = "self_cpu_time_total",
    names: bool = True,
) -> None:
    """Write the self time of every stack in whole µs, compressed when ``path`` ends in ``.gz``.

    ``names`` ends each stack with the name of the operator or range whose time it is;
    torch.profiler's files have the Python frames only.
    """
    if metric not in METRICS:
        raise ValueError(f"metric {metric!r} is unknown; use one of {', '.join(METRICS)}")
    tree = call_tree(trace)
    stacks = stack_of_events(tree, by_calls=True)
    if stacks is None and len(tree):
        raise UnsupportedError(
            f"{path}: this trace holds no Python stacks; record it with with_stack=True, or use"
            " export_chrome_trace(path), which shows how calls nest"
        )
    events = single_events(tree)
    with output_file(path) as sink:
        if stacks is not None:
            lines = _lines(events, stacks, _self_ns(events, metric), trace.strings, names)
            sink.write("".join(lines).encode())
    if progress is not None:
        progress(len(tree), len(tree))


def _self_ns(events: Averages, metric: str) -> Int64:
    if metric == METRICS[0]:
        return events.self_cpu_ns
    # Device work is an event, too, but its time counts for the launching operator.
    return np.where(events.is_device, 0, events.self_device_ns)


def _lines(
    events: Averages, stacks: KnownStacks, ns: Int64, strings: Strings, names: bool
) -> Iterator[str]:
    """Sum first, then write: a stack is spelled out once, however many events have it."""
    counted = np.flatnonzero((stacks.rows != NO_STACK) & (ns > 0))
    key = stacks.rows[counted].astype(np.int64)
    if names:
        key = key * len(events.key.texts) + events.key.codes[counted]
    distinct, first, which = np.unique(key, return_index=True, return_inverse=True)
    us = np.bincount(which, ns[counted], minlength=len(distinct)).astype(np.int64) // 1000
    texts: dict[int, str] = {NO_STACK: ""}
    for at in np.argsort(first):
        if us[at]:
            event = int(counted[first[at]])
            stack = _spelled(stacks.table, int(stacks.rows[event]), strings, texts)
            name = f";{_clean(events.key[event])}" if names else ""
            yield f"{stack[1:]}{name} {us[at]}\n"


def _spelled(table: Stacks, row: int, strings: Strings, texts: dict[int, str]) -> str:
    """Return a stack's frames from the outermost, each with a semicolon; callers are cached."""
    missing = []
    while row not in texts:
        missing.append(row)
        row = int(table.parent[row])
    for below in reversed(missing):
        texts[below] = f"{texts[row]};{_clean(strings[int(table.frame[below])])}"
        row = below
    return texts[row]


def _clean(text: str) -> str:
    return _BREAKING.sub("_", text) or "_"
