"""Writes a Trace as a result file (``.pb``) that ``paddle.profiler`` can load.

Paddle cannot load files with its own event types DygraphKernelLaunch and StaticKernelLaunch. So
such an event has two types here: OperatorInner, which every Paddle knows, and then the true one,
which overrides the first for our reader and is skipped by other readers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope import _native
from stepscope.formats.base.files import output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.texts import AddedTexts
from stepscope.frameworks.paddle.event_types import TracerEventType
from stepscope.frameworks.paddle.memory_events import place_of_device
from stepscope.frameworks.paddle.result_columns import NO_LAUNCH, PROPERTIES
from stepscope.frameworks.paddle.views.arguments import input_lists
from stepscope.frameworks.paddle.views.forest import NO_ROW, Forest
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import BYTES, CALL_STACK
from stepscope.trace.model import NO_CORRELATION, Int32, Int64, Trace, UInt32

Fields = list[tuple[int, Any]]  # (number, value) pairs; a value may be fields again

VERSION = "1.0.2"  # of the file layout, written since Paddle 2.5

_DETAIL_KEYS = (
    "registers per thread",
    "static shared memory",
    "dynamic shared memory",
    "local memory per thread",
    "local memory total",
    "queued",
    "submitted",
    "completed",
    BYTES,
    "value",
)


def export_paddle_pb(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` as Paddle's protobuf, compressed when ``path`` ends in ``.gz``."""
    data = paddle_pb(trace)
    with output_file(path) as sink:
        sink.write(data)
    if progress is not None:
        progress(len(trace), len(trace))


def paddle_pb(trace: Trace) -> bytes:
    user = trace.info.user
    version, span = user.get("schemaVersion"), user.get("span_index")
    head: Fields = [
        (1, version if isinstance(version, str) else VERSION),
        (2, int(str(span)) if str(span).isdecimal() else 0),
    ]
    tail: Fields = [(4, [(1, key), (2, value)]) for key, value in extra_info(trace).items()]
    tail += [(5, _property(device.properties)) for device in trace.devices()]
    encode = _native.encode_proto_fields
    return encode(head) + _trees(trace) + encode(tail)


def _trees(trace: Trace) -> bytes:
    forest = Forest(trace)
    texts = AddedTexts(trace.strings)
    order = _HostOrder.of(forest)
    parts = _Parts()
    host = _host(forest, order, parts)
    runtime, call_of = _runtime(forest, order, texts)
    device, details = _device(forest, call_of, parts)
    memory = _memory(forest, order, texts)
    blob, offsets = texts.table()
    return _native.encode_paddle_trees(
        blob, offsets, parts.encoded, list(forest.places), host, runtime, memory, device, details
    )


class _Parts:
    """Encoded parts of messages; equal parts are encoded once."""

    def __init__(self) -> None:
        self.encoded = [b""]

    def of(self, keys: Int64, fields: Callable[[int], Fields]) -> UInt32:
        """Return the number of the part for each key; key 0 and empty parts have number 0."""
        distinct, place = np.unique(keys, return_inverse=True)
        numbers = np.zeros(len(distinct), np.uint32)
        for i, key in enumerate(distinct.tolist()):
            part = fields(key) if key else []
            if part:
                numbers[i] = len(self.encoded)
                self.encoded.append(_native.encode_proto_fields(part))
        return numbers[place]


@dataclass(frozen=True, slots=True)
class _HostOrder:
    """The host nodes in file order: thread by thread, each root before its slices."""

    rows: Int64  # the slice of each node, or NO_ROW for a root
    thread: UInt32
    position: Int64  # by slice, for host nodes
    root: Int64  # by thread, the position of its root

    @staticmethod
    def of(forest: Forest) -> _HostOrder:
        trace = forest.trace
        threads, slices = forest.thread_tracks, forest.rows
        track = trace.slices.track[slices]
        rows = np.concatenate((np.full(len(threads), NO_ROW, np.int64), slices))
        thread = np.concatenate((threads, track)).astype(np.uint32)
        order = np.argsort(thread, kind="stable")
        position = np.full(len(trace.slices), NO_ROW, np.int64)
        rows, thread = rows[order], thread[order]
        inside = rows != NO_ROW
        position[rows[inside]] = np.flatnonzero(inside)
        root = np.full(len(trace.tracks), NO_ROW, np.int64)
        root[thread[~inside]] = np.flatnonzero(~inside)
        return _HostOrder(rows, thread, position, root)

    def owners(self, rows: Int32 | Int64, track: UInt32) -> Int64:
        """Return the file positions of host slices; the thread's root where there is no slice."""
        if not len(self.position):
            return self.root[track]
        return np.where(rows == NO_ROW, self.root[track], self.position[rows])


def _host(forest: Forest, order: _HostOrder, parts: _Parts) -> dict[str, Any]:
    slices, strings = forest.trace.slices, forest.trace.strings
    rows = order.rows
    is_root = rows == NO_ROW

    def of(column: NDArray[Any]) -> NDArray[Any]:
        # A root copies the last slice, which is not used; a trace of memory alone has only roots.
        return column[rows] if len(column) else np.zeros(len(rows), column.dtype)

    owner = order.owners(np.where(is_root, NO_ROW, of(forest.parent)), order.thread)
    rest = np.where(is_root, 0, of(slices.args.rest))
    return {
        "name": of(slices.name),
        "type": of(forest.types),
        "start_ns": of(slices.start_ns) + forest.trace.info.wall_offset_ns,
        "duration_ns": of(slices.duration_ns),
        "parent": owner - order.root[order.thread],
        "supplement": parts.of(rest, lambda fragment: _supplement(strings[fragment])),
        "op_id": np.where(is_root, 0, of(forest.integers("Op id"))),
        "thread": order.thread,
    }


def _runtime(forest: Forest, order: _HostOrder, texts: AddedTexts) -> tuple[dict[str, Any], Int64]:
    """Return the runtime calls, and the number of the call for each device slice.

    Paddle keeps device work only below a runtime call: where none was recorded, one is made up.
    """
    slices = forest.trace.slices
    calls = np.flatnonzero(forest.is_runtime)
    orphans = np.flatnonzero(forest.is_device & (forest.launch == NO_ROW))
    owner = np.concatenate(
        (
            order.owners(forest.parent[calls], slices.track[calls]),
            np.full(len(orphans), order.root.max(initial=0), np.int64),
        )
    )
    rows = np.concatenate((calls, orphans))
    made_up = np.arange(len(rows)) >= len(calls)
    by_owner = np.argsort(owner, kind="stable")
    rows, made_up = rows[by_owner], made_up[by_owner]
    call_of = np.full(len(slices), NO_ROW, np.int64)
    call_of[rows] = np.arange(len(rows))
    launched = forest.launch != NO_ROW
    call_of[launched] = call_of[forest.launch[launched]]
    name = slices.name[rows].copy()
    if made_up.any():
        name[made_up] = texts.add(NO_LAUNCH)
    return {
        "owner": owner[by_owner].astype(np.uint32),
        "name": name,
        "start_ns": slices.start_ns[rows] + forest.trace.info.wall_offset_ns,
        "duration_ns": np.where(made_up, 0, slices.duration_ns[rows]),
        "correlation": _or_zero(slices.correlation[rows]),
        "callback": forest.integers("callback id")[rows],
    }, call_of


def _device(forest: Forest, call_of: Int64, parts: _Parts) -> tuple[dict[str, Any], list[Int64]]:
    slices, strings = forest.trace.slices, forest.trace.strings
    rows = np.flatnonzero(forest.is_device)
    rows = rows[np.argsort(call_of[rows], kind="stable")]
    types = forest.types[rows]
    rest = slices.args.rest[rows] if len(slices.args.rest) else np.zeros(len(rows), np.uint32)
    # The key includes the type, as the same fragment means other fields in another message.
    keys = rest.astype(np.int64) << 8 | types

    def info(key: int) -> Fields:
        return _device_info(key & 0xFF, strings[key >> 8])

    track = slices.track[rows]
    places = np.array(forest.places, np.int64).reshape(-1, 2)[track]
    table: dict[str, Any] = {
        "owner": call_of[rows].astype(np.uint32),
        "name": slices.name[rows],
        "type": types,
        "start_ns": slices.start_ns[rows] + forest.trace.info.wall_offset_ns,
        "duration_ns": slices.duration_ns[rows],
        "device": slices.args.dense("device", len(slices), NO_ROW)[rows],
        "context": forest.integers("context")[rows],
        "stream": slices.args.dense("stream", len(slices), NO_ROW)[rows],
        "correlation": _or_zero(slices.correlation[rows]),
        "info": parts.of(keys, info),
    }
    for key, which in (("device", 0), ("stream", 1)):
        table[key] = np.where(table[key] == NO_ROW, places[:, which], table[key])
    details = [forest.integers(key)[rows] for key in _DETAIL_KEYS]
    details[1] = forest.integers("shared memory")[rows] - details[2]
    return table, details


def _memory(forest: Forest, order: _HostOrder, texts: AddedTexts) -> dict[str, Any]:
    memory, strings = forest.trace.memory, forest.trace.strings
    owner = order.owners(forest.memory_parent, memory.track)
    by_owner = np.argsort(owner, kind="stable")
    place = np.zeros(len(strings), np.uint32)
    for device in np.unique(memory.device):
        place[device] = texts.add(place_of_device(strings[int(device)]))
    figures = forest.memory_figures
    return {
        "owner": owner[by_owner].astype(np.uint32),
        "place": place[memory.device[by_owner]],
        "thread": memory.track[by_owner],
        "time_ns": memory.time_ns[by_owner] + forest.trace.info.wall_offset_ns,
        "address": memory.address[by_owner],
        "allocated": memory.allocated[by_owner],
        "reserved": memory.reserved[by_owner],
        **{key: column[by_owner] for key, column in figures.items()},
    }


def _or_zero(correlation: Int64) -> Int64:
    return np.where(correlation == NO_CORRELATION, 0, correlation)


def extra_info(trace: Trace) -> dict[str, str]:
    """Return what Paddle calls extra info: the names of threads and the load of the machine."""
    extra = trace.info.user.get("ExtraInfo")
    names = {t.tid: t.thread_name for t in trace.tracks if t.tid.isdecimal() and t.thread_name}
    info = {**names, **(extra if isinstance(extra, dict) else {})}
    for key in ("Process Cpu Utilization", "System Cpu Utilization"):
        if key in trace.info.user:
            info[key] = trace.info.user[key]
    return {str(key): str(value) for key, value in info.items()}


def _property(device: Mapping[str, Any]) -> Fields:
    properties = {"smCount": device.get("numSms", 0), **device}  # Kineto has another name for it
    values = {field: properties.get(key, 0) for field, key in PROPERTIES.items()}
    numbers = [(field, value if type(value) is int else 0) for field, value in values.items()]
    return [*numbers, (2, str(device.get("name", "")))]


# ---- what an event's arguments say

# Kineto's key and Paddle's.
_OCCUPANCY = ("theoretical achieved occupancy %", "est. achieved occupancy %")


def _supplement(fragment: str) -> Fields:
    """Convert a slice's arguments about an operator to fields of a supplement event."""
    pairs = pairs_of(fragment)
    shapes, dtypes = input_lists(pairs)
    sizes = {name: [[(1, n) for n in shape] for shape in own] for name, own in shapes.items()}
    fields: Fields = [(5, _keyed(sizes)), (6, _keyed(dtypes))]
    fields += [(2, _word(pairs.get("Op type"))), (7, _word(pairs.get(CALL_STACK)))]
    return [(field, value) for field, value in fields if value]


def _keyed(lists: Mapping[str, list[Any]]) -> Fields:
    keys: Fields = [(1, name) for name in lists]
    return keys + [(2, [(1, item) for item in items]) for items in lists.values()]


def _device_info(event_type: int, fragment: str) -> Fields:
    """Convert a device slice's arguments to the detail fields of its type."""
    pairs = pairs_of(fragment)
    if event_type == TracerEventType.Kernel:
        return _kernel_info(pairs)
    if event_type == TracerEventType.Memcpy:
        kinds = ("copy kind", "src kind", "dst kind")
        return [(i, _word(pairs.get(key))) for i, key in enumerate(kinds, 2)]
    if event_type == TracerEventType.Memset:
        return [(2, _word(pairs.get("memory kind")))]
    return []


def _kernel_info(pairs: Mapping[str, Any]) -> Fields:
    sizes = [*_triple(pairs.get("block")), *_triple(pairs.get("grid"))]
    occupancy = next((pairs[key] for key in _OCCUPANCY if key in pairs), 0)
    return [
        *enumerate(sizes, 1),
        (15, _float(pairs.get("blocks per SM"))),
        (16, _float(pairs.get("warps per SM"))),
        (17, _float(occupancy) / 100),
    ]


def _triple(value: Any) -> list[int]:
    is_triple = isinstance(value, list) and len(value) == 3 and all(type(v) is int for v in value)
    return [size & 0xFFFFFFFF for size in value] if is_triple else [0, 0, 0]


def _float(value: Any) -> float:
    try:
        return float(value) if value else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
