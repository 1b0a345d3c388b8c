"""Assigns the slices of a track to lines so that none covers another."""

from __future__ import annotations

from stepscope import _native
from stepscope.trace.model import Int32, Trace


def lanes(trace: Trace) -> Int32:
    """Return each slice's line within its track: its depth, or a free line below.

    Nested slices are at their depth. Where slices overlap without nesting (streams that share a
    track, asynchronous ranges), each takes the first free line below its parent, so none is hidden.
    """
    slices = trace.slices
    return _native.lanes(slices.start_ns, slices.duration_ns, slices.track, slices.parent)
