"""PyTorch's memory snapshots (``torch.cuda.memory._dump_snapshot``): the allocator's history.

A snapshot is a pickle. Our own unpickler reads it, which knows only lists, dictionaries, numbers
and texts: it refuses a file that asks for anything else, and runs no code.

Memory is in use from ``alloc`` to ``free_completed``, as in PyTorch's own viewer: until then a
stream may still use it. Memory from before the history is known from the blocks of the segments,
with its stack, and stands at the beginning. Memory that was freed without an allocation existed
before, too, but its allocation site is unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscope import _native
from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats.base.gathered import ABSENT
from stepscope.formats.base.gzip import text_chunks
from stepscope.formats.base.registry import Progress
from stepscope.trace.build import build
from stepscope.trace.keys import BYTES
from stepscope.trace.model import (
    Args,
    Bool,
    Int64,
    IntColumn,
    Marks,
    Memory,
    SliceFlags,
    Slices,
    Stacks,
    Trace,
    TraceInfo,
    Track,
    UInt32,
)
from stepscope.trace.schema import Captured
from stepscope.trace.strings import Strings
from stepscope.trace.validate import LATEST_NS

Columns = Mapping[str, Any]  # what _native.SnapshotReader.finish returns

_MICROSECOND = 1000
_BEGIN, _END = "START", "END"
_MOMENTS = ("oom", "snapshot", "user_defined")
_MOST_RANGES = 1 << 22


def range_columns(
    events: Columns,
    strings: Strings,
    devices: Sequence[int],
    first_ns: int,
    text: Callable[[str], int],
) -> Slices | None:
    """Return the ranges recorded beside the history: a START ends at its END."""
    ids = strings.ids_of([_BEGIN, _END])
    track_of = {device: track for track, device in enumerate(devices)}
    rows: list[list[int]] = []
    open_ones: dict[tuple[int, int], list[int]] = {}
    columns = (
        events[name].tolist()[:_MOST_RANGES] for name in ("device", "time_us", "name", "stage")
    )
    last_ns = 0
    for device, time_us, name, stage in zip(*columns, strict=True):
        time_ns = time_us * _MICROSECOND - first_ns
        if device not in track_of or abs(time_ns) > 1 << 61:
            continue
        last_ns = max(last_ns, time_ns)
        waiting = open_ones.setdefault((device, name), [])
        if stage == ids.get(_BEGIN):
            waiting.append(len(rows))
            rows.append([name, time_ns, ABSENT, track_of[device]])
        elif stage == ids.get(_END) and waiting:
            row = rows[waiting.pop()]
            row[2] = max(time_ns, row[1])
    if not rows:
        return None
    name, start, end, track = np.array(rows, np.int64).T
    is_open = end == ABSENT
    return Slices.of(
        name=name.astype(np.uint32),
        category=np.full(len(name), text("user_annotation"), np.uint32),
        start_ns=np.ascontiguousarray(start),
        duration_ns=np.where(is_open, last_ns, end) - start,
        track=track.astype(np.uint32),
        flags=np.where(is_open, SliceFlags.UNFINISHED, 0).astype(np.uint8),
    )


def mark_columns(
    events: Columns,
    time_ns: Int64,
    strings: Strings,
    devices: Sequence[int],
    text: Callable[[str], int],
) -> Marks | None:
    """Return marks for out-of-memory events, snapshots, and the user's own."""
    ids = strings.ids_of(_MOMENTS)
    chosen = np.isin(events["action"], np.array(list(ids.values()), np.uint32))
    rows = np.flatnonzero(chosen & np.isin(events["device"], devices))
    if not len(rows):
        return None
    names = {ids.get("oom"): text("out of memory"), ids.get("snapshot"): text("snapshot")}
    action, note = events["action"][rows].tolist(), events["note"][rows].tolist()
    name = [names.get(word, label or word) for word, label in zip(action, note, strict=True)]
    at = np.arange(len(rows), dtype=np.uint32)
    is_oom = events["action"][rows] == ids.get("oom", -1)
    integers = {
        BYTES: IntColumn(at, events["size"][rows]),
        "free bytes": IntColumn(at[is_oom], events["address"][rows][is_oom]),
    }
    return Marks(
        phase=np.full(len(rows), ord("i"), np.uint8),
        category=np.full(len(rows), text("memory"), np.uint32),
        name=np.array(name, np.uint32),
        time_ns=time_ns[rows],
        track=np.searchsorted(devices, events["device"][rows]).astype(np.uint32),
        args=Args(integers),
    )


PRODUCER = "torch memory snapshot"
_MICROSECOND = 1000  # ns
_IN, _MORE = 1, 2  # what an event changes: the bytes in use, or the bytes reserved
_NOT_ONE = "is the file one that torch.cuda.memory._dump_snapshot wrote?"
_GROWS = ("segment_alloc", "segment_map")
_SHRINKS = ("segment_free", "segment_unmap")
_IN_USE = ("active_allocated", "active_pending_free", "active_awaiting_free")


def read_snapshot(path: Path, progress: Progress | None = None) -> Trace:
    """Read a memory snapshot, gzip or not, without running code in it."""
    columns, damage = _columns(path, progress)
    if not columns["is_snapshot"]:
        cause = f": {damage}" if damage else ""
        reason = "is a pickle, but not a memory snapshot" if columns["is_whole"] else "ends early"
        raise TraceReadError(path, f"{reason}{cause}", _NOT_ONE)
    if not columns["is_whole"]:
        count = len(columns["events"]["action"])
        text = f"{path} ends early{': ' + damage if damage else ''}; {count} events were read"
        warnings.warn(text, TraceReadWarning, stacklevel=2)
    return _History(columns).trace()


def _columns(path: Path, progress: Progress | None) -> tuple[Columns, str]:
    reader = _native.SnapshotReader()
    damage = ""
    try:
        with text_chunks(path) as chunks:
            size = path.stat().st_size
            for chunk in chunks:
                reader.feed(chunk.text)
                damage = chunk.damage
                if progress is not None:
                    progress(chunk.file_bytes, size)
        return reader.finish(), damage
    except _native.RefusedPickleError as error:
        reason = f"is a pickle that asks for {error}, which no memory snapshot does; it was not run"
        raise TraceReadError(path, reason, _NOT_ONE) from None
    except _native.MalformedPickleError as error:
        reason = f"is a damaged pickle: it {error} (byte {reader.position})"
        raise TraceReadError(path, reason, _NOT_ONE) from None


@dataclass(frozen=True, slots=True)
class _Rows:
    """Events of a device, or blocks that existed before them."""

    time_ns: Int64
    address: Int64
    size: Int64  # negative for a release
    stack: UInt32
    allocated: Int64
    reserved: Int64


class _History:
    """The history of all devices' allocators."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._events: dict[str, Any] = dict(columns["events"])
        self._strings = Strings(*columns["strings"])
        self._ids = self._strings.ids_of(
            [*_GROWS, *_SHRINKS, *_IN_USE, "alloc", "free_completed", "free_requested", "free"]
        )
        self._texts: list[str] = []  # added to the file's own
        self._time_ns, self._first_ns = _times(self._events["time_us"])

    def trace(self) -> Trace:
        devices = self._devices()
        memory = [self._memory(track, device) for track, device in enumerate(devices)]
        names = self._columns["ranges"]
        slices = range_columns(names, self._strings, devices, self._first_ns, self._text)
        marks = mark_columns(self._events, self._time_ns, self._strings, devices, self._text)
        tracks = tuple(
            Track("memory", str(device), "PyTorch's allocator", f"cuda:{device}")
            for device in devices
        )
        parent, frame = self._columns["stacks"]
        parts = [part for part in memory if len(part)]
        captured = Captured(
            slices if slices is not None else Slices.empty(),
            tracks,
            self._all_strings(),
            stacks=Stacks(parent, frame),
            memory=Memory.concat(parts) if parts else Memory.empty(),
            marks=marks if marks is not None else Marks.empty(),
        )
        return build(captured, self._info(captured))

    def _info(self, captured: Captured) -> TraceInfo:
        settings = self._columns["settings"]
        times = [captured.memory.time_ns, captured.slices.end_ns, captured.marks.time_ns]
        all_times = np.concatenate(times)
        segments = self._columns["segments"]
        user: dict[str, Any] = {"segments": len(segments["size"])}
        if settings:
            user["allocator_settings"] = settings
        return TraceInfo(
            PRODUCER,
            start_ns=int(all_times.min(initial=0)),
            end_ns=int(all_times.max(initial=0)),
            wall_offset_ns=self._first_ns,
            anomalies={} if self._columns["is_whole"] else {"file ends early": 1},
            user=user,
        )

    def _devices(self) -> list[int]:
        """Return the devices that the snapshot mentions."""
        columns = [self._events["device"], self._columns["blocks"]["device"]]
        columns += [self._columns["segments"]["device"], self._columns["ranges"]["device"]]
        numbers = {int(number) for part in columns for number in np.unique(part)}
        return sorted(number for number in numbers if 0 <= number < 1 << 16) or [0]

    def _text(self, text: str) -> int:
        own_id = self._strings.ids_of([text]).get(text)
        if own_id is not None:
            return own_id
        if text not in self._texts:
            self._texts.append(text)
        return len(self._strings) + self._texts.index(text)

    def _all_strings(self) -> Strings:
        added = Strings.of(["", *self._texts])
        end = int(self._strings.offsets[-1])
        offsets = np.concatenate([self._strings.offsets, end + added.offsets[2:]])
        return Strings(self._strings.blob[:end] + added.blob, offsets)

    def _is(self, actions: UInt32, *words: str) -> Bool:
        ids = [self._ids[word] for word in words if word in self._ids]
        return np.isin(actions, np.array(ids, np.uint32))

    def _memory(self, track: int, device: int) -> Memory:
        rows = self._rows(device)
        count = len(rows.time_ns)
        return Memory.of(
            time_ns=rows.time_ns,
            address=rows.address,
            size=rows.size,
            device=np.full(count, self._text(f"cuda:{device}"), np.uint32),
            track=np.full(count, track, np.uint32),
            slice=np.full(count, -1, np.int32),
            allocated=rows.allocated,
            reserved=rows.reserved,
            stack=rows.stack,
        )

    def _rows(self, device: int) -> _Rows:
        """Return a device's events, after the blocks that existed before."""
        events = self._events
        here = np.flatnonzero(events["device"] == device)
        action = events["action"][here]
        # Kinds of releases: running streams delay the second kind, which older files lack.
        frees = "free_completed" if "free_completed" in self._ids else "free_requested"
        of_action = np.zeros(len(self._strings), np.int8)
        for words, effect in (
            (("alloc",), _IN), ((frees, "free"), -_IN), (_GROWS, _MORE), (_SHRINKS, -_MORE),
        ):  # fmt: skip
            of_action[[self._ids[word] for word in words if word in self._ids]] = effect
        effect_of = of_action[action]
        amount = np.sign(effect_of) * events["size"][here]
        size = np.where(np.abs(effect_of) == _IN, amount, 0)
        reserved = np.where(np.abs(effect_of) == _MORE, amount, 0)
        is_change = (size != 0) | (reserved != 0)
        here, size, reserved = here[is_change], size[is_change], reserved[is_change]
        address = events["address"][here]
        live, unseen = _ends_of_blocks(address, size)
        before = self._blocks_before(device, address[live])
        base = -int(size[unseen].sum())
        old = before["requested"]
        changes = np.concatenate([old, size])
        # The block's allocation time is unknown: it exists from the first event on.
        time_ns = self._time_ns[here]
        first = int(time_ns[0]) if len(time_ns) else 0
        return _Rows(
            time_ns=np.concatenate([np.full(len(old), first - 1), time_ns]),
            address=np.concatenate([before["address"], address]),
            size=changes,
            stack=np.concatenate([before["stack"], events["stack"][here]]).astype(np.uint32),
            allocated=base + np.cumsum(changes),
            reserved=self._reserved(device, np.concatenate([np.zeros_like(old), reserved])),
        )

    def _blocks_before(self, device: int, allocated: Int64) -> dict[str, Any]:
        """Return blocks in use at the end that the history does not allocate."""
        blocks = self._columns["blocks"]
        used = self._is(blocks["state"], *_IN_USE)
        used &= (blocks["device"] == device) & (blocks["requested"] > 0)
        used &= ~np.isin(blocks["address"], allocated)
        return {name: column[used] for name, column in blocks.items()}

    def _reserved(self, device: int, reserved: Int64) -> Int64:
        """Return the reserved bytes after each event, from the segments at the end."""
        segments = self._columns["segments"]
        at_end = int(segments["size"][segments["device"] == device].sum())
        sums = np.cumsum(reserved)
        if not len(sums):
            return sums
        before = max(at_end - int(sums[-1]), -int(sums.min()), 0)
        return before + sums


def _times(time_us: Int64) -> tuple[Int64, int]:
    """Return ns since the first event, distinct within a µs, and the first event's time.

    Early versions have no times: there an event's number stands for it.
    """
    if not time_us.any():
        return np.arange(len(time_us), dtype=np.int64) * _MICROSECOND, 0
    first = int(time_us.min())
    if int(time_us.max()) - first > LATEST_NS // _MICROSECOND // 2:
        first = int(np.median(time_us))
        time_us = np.clip(time_us, first, first + LATEST_NS // _MICROSECOND // 4)
    offset = first * _MICROSECOND
    time_ns = np.maximum.accumulate(time_us - first) * _MICROSECOND
    later = np.arange(len(time_ns)) - np.searchsorted(time_ns, time_ns)
    time_ns += np.minimum(later, _MICROSECOND - 1)
    return time_ns, offset if abs(offset) <= LATEST_NS else 0


def _ends_of_blocks(address: Int64, size: Int64) -> tuple[Int64, Int64]:
    """Return the allocations never released, and the releases of earlier blocks."""
    rows = np.flatnonzero(size != 0)
    rows = rows[np.argsort(address[rows], kind="stable")]
    is_last = np.ones(len(rows), bool)
    is_last[:-1] = address[rows[1:]] != address[rows[:-1]]
    is_first = np.roll(is_last, 1)
    is_alloc = size[rows] > 0
    follows_alloc = ~is_first & np.roll(is_alloc, 1)
    return rows[is_last & is_alloc], rows[~is_alloc & ~follows_alloc]
