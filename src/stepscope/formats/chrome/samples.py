"""Sampled stacks in Chrome JSON: its sections ``stackFrames`` and ``samples``.

A sample's weight is its duration in µs, its name the state of the thread: ``python``, ``native``,
``gil``, ``ready``, or ``blocked: sleep``. They are read back only from files of our own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.kinds import ThreadState, WaitReason
from stepscope.trace.schema import NO_STACK, Samples, Stacks
from stepscope.trace.validate import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepscope.trace.schema import Captured, Track
    from stepscope.trace.table import UInt32

FRAMES, SAMPLES = "stackFrames", "samples"
"""The sections' names."""

_ROWS_AT_A_TIME = 1 << 14
_NS_OF_US = 1_000
_BLOCKED = "blocked: "
_STATES = {state.name.lower(): (state, WaitReason.UNKNOWN) for state in ThreadState} | {
    f"{_BLOCKED}{reason.name.lower()}": (ThreadState.BLOCKED, reason) for reason in WaitReason
}


def sample_sections(captured: Captured, ids_of: Callable[[Track], str]) -> Iterator[str]:
    """Yield the text of both sections, each after a comma; nothing without samples.

    ``ids_of`` returns a track's process and thread as JSON.
    """
    samples = captured.samples
    if not len(samples):
        return
    yield f',\n"{FRAMES}": {{\n'
    yield ",\n".join(_frames(captured))
    yield f'\n}},\n"{SAMPLES}": [\n'
    tracks = [ids_of(track) for track in captured.tracks]
    names = {number: json.dumps(name) for name, number in _STATES.items()}
    for first in range(0, len(samples), _ROWS_AT_A_TIME):
        some = samples.take(np.arange(first, min(first + _ROWS_AT_A_TIME, len(samples))))
        lines = (
            f'{{{tracks[track]}, "ts": {_us(time_ns)}, "name": {names[state, wait]}, '
            f'"sf": "{stack}", "weight": {_us(duration_ns)}}}'
            for time_ns, duration_ns, track, stack, state, wait in zip(
                some.time_ns.tolist(),
                some.duration_ns.tolist(),
                some.track.tolist(),
                some.stack.tolist(),
                some.state.tolist(),
                some.wait.tolist(),
                strict=True,
            )
        )
        yield (",\n" if first else "") + ",\n".join(lines)
    yield "\n]"


def _frames(captured: Captured) -> Iterator[str]:
    stacks = captured.stacks
    used = stacks.with_callers(np.unique(captured.samples.stack))
    yield f'"{NO_STACK}": {{"name": "", "category": "python"}}'
    for at in np.flatnonzero(used).tolist():
        if at != NO_STACK:
            name = json.dumps(captured.strings[int(stacks.frame[at])])
            parent = int(stacks.parent[at])
            above = f', "parent": "{parent}"' if parent != NO_STACK else ""
            yield f'"{at}": {{"name": {name}, "category": "python"{above}}}'


def _us(ns: int) -> str:
    return f"{ns // _NS_OF_US}.{ns % _NS_OF_US:03d}"


def read_sections(
    sections: Mapping[str, Any], tracks: Sequence[Track], text_id: Callable[[str], int]
) -> tuple[Samples, Stacks]:
    """Return the samples in a file that we wrote; ``text_id`` interns a text.

    A sample that is not as we write it is left out.
    """
    stacks, row_of = _read_frames(sections.get(FRAMES), text_id)
    track_of = {(track.pid, track.tid): i for i, track in enumerate(tracks)}
    rows = []
    entries = sections.get(SAMPLES)
    for entry in entries if isinstance(entries, list) else ():
        try:
            state, wait = _STATES[entry["name"]]
            track = track_of[str(entry["pid"]), str(entry["tid"])]
            time_ns, duration_ns = round(entry["ts"] * 1e3), round(entry["weight"] * 1e3)
            row = (time_ns, duration_ns, track, row_of[entry["sf"]], state, wait)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        if duration_ns >= 0 and -LATEST_NS <= time_ns <= LATEST_NS - duration_ns:
            rows.append(row)
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    names = ("time_ns", "duration_ns", "track", "stack", "state", "wait")
    column_names = Samples.columns()
    return Samples.of(
        **{
            name: values.astype(column_names[name].dtype)
            for name, values in zip(names, columns, strict=True)
        }
    ), stacks


def _read_frames(frames: Any, text_id: Callable[[str], int]) -> tuple[Stacks, dict[str, int]]:
    """Return the table, and the row of each frame; parents come first."""
    parent, frame = [0], [0]
    row_of = {str(NO_STACK): 0}
    for key, about in frames.items() if isinstance(frames, dict) else ():
        if key in row_of or not isinstance(about, dict):
            continue
        above = row_of.get(str(about.get("parent", NO_STACK)))
        if above is not None:
            row_of[key] = len(parent)
            parent.append(above)
            frame.append(text_id(str(about.get("name", ""))))
    rows: tuple[UInt32, UInt32] = np.array(parent, np.uint32), np.array(frame, np.uint32)
    return Stacks(*rows), row_of
