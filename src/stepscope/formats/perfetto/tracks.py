"""Processes, threads and streams as Perfetto's tracks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.formats.perfetto import messages
from stepscope.trace.model import Int64, Trace, Track

_HIGHEST_ID = 2**31 - 1  # of a process or thread: others are no ids of an operating system


@dataclass(frozen=True, slots=True)
class Described:
    """The tracks of a trace in Perfetto's form."""

    packets: list[bytes]
    uuids: Int64  # of each track
    group_uuids: Int64  # of each track's process or device
    free_uuid: int  # the lowest unused one
    os_ids: list[tuple[int, int] | None]  # of each track: process and thread ids, if it is a thread


def described(trace: Trace) -> Described:
    """Describe all tracks in order, each process before its threads."""
    tracks = trace.tracks
    groups: dict[str, list[int]] = {}
    for at in _in_order(tracks):
        groups.setdefault(tracks[at].pid, []).append(at)
    on_device = set(np.unique(trace.slices.track[trace.slices.on_device]).tolist())
    uuids = np.arange(1, len(tracks) + 1, dtype=np.int64)
    group_uuids = np.zeros(len(tracks), np.int64)
    packets: list[bytes] = []
    os_ids: list[tuple[int, int] | None] = [None] * len(tracks)
    for rank, (pid, members) in enumerate(groups.items()):
        uuid = len(tracks) + 1 + rank
        group_uuids[members] = uuid
        first = tracks[members[0]]
        number = None if on_device & set(members) else _os_id(pid)
        if number is None:
            title = _group_title(first, is_device=bool(on_device & set(members)))
            packets.append(messages.group(uuid, title, rank))
        else:
            name, order = first.process_name, first.process_sort
            packets.append(messages.process(uuid, number, name, first.process_label, order))
        for at_rank, at in enumerate(members):
            tid = _os_id(tracks[at].tid)
            os_ids[at] = None if number is None or tid is None else (number, tid)
            packets.append(_line(tracks[at], int(uuids[at]), uuid, os_ids[at], at_rank))
    return Described(packets, uuids, group_uuids, len(tracks) + len(groups) + 1, os_ids)


def _in_order(tracks: tuple[Track, ...]) -> Iterator[int]:
    def key(at: int) -> tuple[int, int, int]:
        track = tracks[at]
        return track.process_sort or 0, track.thread_sort or 0, at

    yield from sorted(range(len(tracks)), key=key)


def _os_id(text: str) -> int | None:
    """Return the number of a process or thread; None if the id is no number."""
    if not (text.isascii() and text.isdigit() and len(text) < len(str(_HIGHEST_ID)) + 1):
        return None
    number = int(text)
    return number if 0 < number <= _HIGHEST_ID else None


def _group_title(track: Track, *, is_device: bool) -> str:
    number = f"device {track.pid}" if is_device else track.pid
    words = [track.process_name, track.process_label or number]
    return " ".join(dict.fromkeys(word for word in words if word)) or "(no process)"


def _line(
    track: Track, uuid: int, group_uuid: int, ids: tuple[int, int] | None, rank: int
) -> bytes:
    if ids is not None:
        return messages.thread(uuid, group_uuid, ids, track.thread_name)
    return messages.line(uuid, group_uuid, track.thread_name or track.tid or "(no thread)", rank)
