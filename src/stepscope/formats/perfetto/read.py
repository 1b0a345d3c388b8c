"""Reads Perfetto's traces: track events of any program, and files of our own.

Kernel scheduling (ftrace), heap profiles and the like are not read; ``info.anomalies`` counts their
packets.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepscope import _native
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats.base.asynchronous import with_async_ranges
from stepscope.formats.base.gzip import file_bytes
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.xla import xla_kinds
from stepscope.formats.chrome.read import marks_of, slices_of, window_of
from stepscope.trace.build import build
from stepscope.trace.model import Trace, TraceInfo, Track, UInt32
from stepscope.trace.schema import Captured
from stepscope.trace.stored_info import InfoDamage, info_of
from stepscope.trace.strings import Strings, valid_value
from stepscope.trace.validate import LATEST_NS
from stepscope.units import size_text

Columns = Mapping[str, Any]  # what _native.read_perfetto returns

_NOT_A_TRACE = "is the file a trace that Perfetto, or a program with its library, wrote?"
_INFLATED_BYTES = 1 << 30  # limit of all compressed packets of a file
_PRODUCER, _OWN_PRODUCER = "perfetto", "stepscope, exported"
_NUMBERS = {8, 10, 13, 41, 42, 58, 87}  # fields of a packet that are numbers
_MESSAGES = {1, 2, 6, 11, 12, 33, 35, 36, 43, 44, 45, 50, 59, 60, 89, 77_000_021}
_HEAD_FIELDS = 4
_OTHER_PACKETS = "packets of other kinds not read"


def is_perfetto(head: bytes) -> bool:
    """Tell whether a file with these first bytes is a Perfetto trace."""
    if head[:1] != b"\x0a":
        return False
    length, at = _varint(head, 1)
    end, field_number = at + length, 0
    while at < min(end, len(head)) and field_number < _HEAD_FIELDS:
        key, at = _varint(head, at)
        number, wire = key >> 3, key & 7
        if wire == 0 and number in _NUMBERS:
            at = _varint(head, at)[1]
        elif wire == 2 and number in _MESSAGES:
            size, at = _varint(head, at)
            at += size
            if at > end:
                return False
        else:
            return False
        field_number += 1
    return field_number > 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at


def read_perfetto(path: str | Path, progress: Progress | None = None) -> Trace:
    """Read a Perfetto trace, gzip or not.

    The readable part of a damaged file is kept, with a ``TraceReadWarning``.
    """
    place = Path(path)
    data, damage = file_bytes(place, progress)
    if not data:
        raise TraceReadError(place, f"cannot be read: {damage}" if damage else "is empty")
    columns = _native.read_perfetto(data, _inflater(place))
    del data
    damage = damage or _damage(columns)
    _check(place, columns, damage)
    if damage:
        columns["anomalies"]["damaged file"] = 1
        text = f"{place}: {damage}; {columns['events']} events could be read"
        warnings.warn(text, TraceReadWarning, stacklevel=2)
    return _trace(columns)


def _inflater(path: Path) -> Callable[[bytes], bytes]:
    budget = _INFLATED_BYTES

    def inflate(packed: bytes) -> bytes:
        nonlocal budget
        member = zlib.decompressobj()
        try:
            plain = member.decompress(packed, budget + 1)
        except zlib.error:
            return b"\xff"  # counted as malformed
        budget -= len(plain)
        if budget < 0:
            limit = size_text(_INFLATED_BYTES)
            raise TraceReadError(path, f"holds compressed packets of more than {limit}, the limit")
        return plain

    return inflate


def _damage(columns: Columns) -> str:
    if columns["ends_early"]:
        return "it ends early, in the middle of a packet"
    if columns["broken_at"] is not None:
        return f"it is not valid protobuf from byte {columns['broken_at']} on"
    return ""


def _check(path: Path, columns: Columns, damage: str) -> None:
    if columns["events"] or (columns["packets"] and not damage and columns["own"]):
        return
    skipped = sum(count for what, count in columns["anomalies"].items() if "not read" in what)
    if damage:
        reason = f"has no readable event: {damage}"
    elif skipped:
        reason = (
            f"has no track event; {skipped} packets of the kernel or of other kinds are not read"
        )
    else:
        reason = "has no event"
    raise TraceReadError(path, reason, _NOT_A_TRACE)


class _TrackDescriptor(NamedTuple):
    """A track as its descriptor describes it."""

    uuid: int
    parent: int
    pid: int | None
    tid: int | None
    name: str
    is_counter: bool


def _trace(columns: Columns) -> Trace:
    descriptions = [_TrackDescriptor(*fields) for fields in columns["tracks"]]
    own = _own(columns["own"])
    slices, marks = slices_of(columns["slices"]), marks_of(columns["marks"])
    if own:  # drop what is computed from the rest
        derived = [at for at, track in enumerate(descriptions) if track.uuid in own["derived"]]
        marks = marks.take(~np.isin(marks.track, derived))
    used = np.unique(np.concatenate((slices.track, marks.track)))
    tracks, track_of = (
        _own_tracks(own, descriptions, used) if own else _tracks(descriptions, columns, used)
    )
    shift_ns = -own["shift_ns"] if own else 0
    slices = replace(slices, track=track_of[slices.track], start_ns=slices.start_ns + shift_ns)
    marks = replace(marks, track=track_of[marks.track], time_ns=marks.time_ns + shift_ns)
    captured = Captured(slices, tuple(tracks), Strings(*columns["strings"]), marks=marks)
    captured, odd = with_async_ranges(captured)
    for what, count in odd.items():
        columns["anomalies"][what] = columns["anomalies"].get(what, 0) + count
    start_ns, end_ns = window_of(captured.slices, captured.marks)
    offset_ns = columns["wall_offset_ns"] or 0
    info = TraceInfo(
        producer=_PRODUCER,
        start_ns=start_ns,
        end_ns=end_ns,
        wall_offset_ns=offset_ns if abs(offset_ns) <= LATEST_NS else 0,
    )
    if own:
        info = replace(own["info"], producer=_OWN_PRODUCER)
        columns["anomalies"].pop(_OTHER_PACKETS, None)  # the packets of samples are known
    info = replace(info, anomalies={**info.anomalies, **columns["anomalies"]})
    return build(captured, info, xla_kinds)


def _own(text: str) -> dict[str, Any] | None:
    """Return the private data of a file of ours; None if it is unusable."""
    try:
        content = valid_value(json.loads(text)) if text else None
        if not isinstance(content, dict):
            return None
        info, shift_ns = info_of(content["info"]), content["shift_ns"]
        tracks = [_own_track(entry) for entry in content["tracks"]]
        uuids = [int(entry) for entry in content["uuids"]]
        derived = {int(entry) for entry in content["derived"]}
    except (ValueError, KeyError, TypeError, RecursionError, InfoDamage):
        return None
    fits = type(shift_ns) is int and 0 <= shift_ns <= LATEST_NS and len(uuids) == len(tracks)
    if not fits:
        return None
    read = {"info": info, "shift_ns": shift_ns}
    return read | {"tracks": tracks, "uuids": uuids, "derived": derived}


def _own_track(content: Mapping[str, Any]) -> Track:
    track = Track(**content)
    for field in fields_of(Track):
        value = getattr(track, field.name)
        is_text = field.name.endswith(("id", "name", "label")) and field.name != "logical_id"
        is_number = type(value) is int and abs(value) < 1 << 63
        may_be_absent = field.name.endswith("sort") and value is None
        if not (isinstance(value, str) if is_text else is_number or may_be_absent):
            raise ValueError(f"{field.name} of a track is {value!r}")
    return track


def _own_tracks(
    own: Mapping[str, Any], descriptions: Sequence[_TrackDescriptor], used: UInt32
) -> tuple[list[Track], UInt32]:
    """Return our tracks, and which of them each track of the file belongs to."""
    tracks: list[Track] = list(own["tracks"])
    row_of = {uuid: at for at, uuid in enumerate(own["uuids"])}
    others: dict[str, int] = {}
    numbers = np.zeros(len(descriptions), np.uint32)
    for place in used.tolist():
        description = descriptions[place]
        at = row_of.get(description.uuid, row_of.get(description.parent))
        if at is None:  # a process counter, or a track added by another tool
            title = description.name or str(description.uuid)
            at = others.setdefault(title, len(tracks))
            if at == len(tracks):
                tracks.append(Track("", title, thread_name=title))
        numbers[place] = at
    return tracks, numbers


def _tracks(
    descriptions: Sequence[_TrackDescriptor], columns: Columns, used: UInt32
) -> tuple[list[Track], UInt32]:
    """Return the tracks with events, and which of them each track of the file belongs to."""
    processes, threads = columns["processes"], columns["threads"]
    by_uuid = {description.uuid: description for description in descriptions if description.uuid}
    rows: dict[tuple[str, str], int] = {}
    tracks: list[Track] = []
    numbers = np.zeros(len(descriptions), np.uint32)
    for place in used.tolist():
        pid, tid, process, thread = _names(descriptions[place], by_uuid, processes, threads)
        at = rows.setdefault((pid, tid), len(tracks))
        if at == len(tracks):
            tracks.append(Track(pid, tid, process_name=process, thread_name=thread))
        elif thread and not tracks[at].thread_name:
            tracks[at] = replace(tracks[at], thread_name=thread)
        numbers[place] = at
    return tracks, numbers


def _names(
    track: _TrackDescriptor,
    by_uuid: Mapping[int, _TrackDescriptor],
    processes: Mapping[int, str],
    threads: Mapping[int, str],
) -> tuple[str, str, str, str]:
    """Return the process and thread of a track, and their names."""
    if track.pid is not None and track.tid is not None:
        name = track.name or threads.get(track.tid, "")
        return str(track.pid), str(track.tid), processes.get(track.pid, ""), name
    top, seen = track, {track.uuid}
    while top.pid is None and top.parent in by_uuid and top.parent not in seen:
        top = by_uuid[top.parent]
        seen.add(top.uuid)
    thread = track.name or (f"track {track.uuid}" if track.uuid else "")
    if top.pid is not None:
        return str(top.pid), f"track {track.uuid}", processes.get(top.pid, ""), thread
    return f"track {top.uuid}", f"track {track.uuid}", top.name, thread
