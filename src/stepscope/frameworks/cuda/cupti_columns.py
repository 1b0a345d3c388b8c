"""Converts CUPTI's records to columns of a Trace, with Kineto's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.cuda.devices import occupancy_fragment
from stepscope.record.capture import thread_track
from stepscope.trace.keys import BYTES, CAPTURED_NODE
from stepscope.trace.model import NO_THREAD, Args, IntColumn, Track
from stepscope.trace.names import plain_call
from stepscope.trace.schema import Captured, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.model import Int64, UInt32

# In the order of the native core's kinds.
_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver")
_KERNEL, _MEMCPY, _MEMSET, _RUNTIME, _DRIVER = range(5)
_HOST = 1 << 20  # a key for threads, larger than any device number


def work_captured(
    columns: Mapping[str, Any],
    devices: Sequence[Mapping[str, Any]] = (),
    nodes: Mapping[str, Any] | None = None,
) -> Captured:
    """Build the columns: a track for each stream; calls stand on the tracks of their threads.

    ``nodes`` are those of graphs whose capture was seen.
    """
    texts: dict[str, int] = {"": 0}

    def text_id(text: str) -> int:
        return texts.setdefault(text, len(texts))

    kind = columns["kind"]
    names = [plain_call(name.decode("utf-8", "replace")) for name in columns["names"]]
    name_ids = np.array([text_id(name) for name in names], np.uint32)
    categories = np.array([text_id(word) for word in _CATEGORIES], np.uint32)
    shapes = columns["shapes"].reshape(-1, 8)
    # Machines with different devices are rare: the first one is taken for all.
    device = devices[0] if devices else None
    fragments = np.array(
        [text_id(_shape_fragment(shape, device)) for shape in shapes.tolist()], np.uint32
    )
    tracks, track = _tracks(columns)
    slices = Slices.of(
        category=categories[kind],
        name=name_ids[columns["name"]] if len(kind) else np.zeros(0, np.uint32),
        start_ns=columns["start_ns"],
        duration_ns=columns["duration_ns"],
        track=track,
        correlation=columns["correlation"],
        args=_args(columns, shapes, fragments, nodes),
    )
    return Captured(slices, tracks, Strings.of(texts))


def _shape_fragment(shape: list[int], device: Mapping[str, Any] | None) -> str:
    return f'"grid": {shape[0:3]}, "block": {shape[3:6]}{occupancy_fragment(shape, device)}'


def _tracks(columns: Mapping[str, Any]) -> tuple[tuple[Track, ...], UInt32]:
    """Return a track per stream and thread, and the track of each row."""
    on_device = columns["kind"] < _RUNTIME
    keys = np.where(on_device, columns["device"], _HOST) << 32 | columns["stream"]
    distinct, track = np.unique(keys, return_inverse=True)
    places = [(key >> 32, key & 0xFFFFFFFF) for key in distinct.tolist()]
    tracks = tuple(
        _stream_track(*place) if place[0] != _HOST else thread_track(place[1], NO_THREAD, "")
        for place in places
    )
    return tracks, track.astype(np.uint32)


def _stream_track(device: int, stream: int) -> Track:
    return Track(
        pid=str(device),
        tid=str(stream),
        process_name="python",
        process_label=f"GPU {device}",
        thread_name=f"stream {stream} ",
        process_sort=5_000_000 + device,  # below all threads
        thread_sort=stream,
    )


def _args(
    columns: Mapping[str, Any],
    shapes: NDArray[np.int32],
    fragments: UInt32,
    nodes: Mapping[str, Any] | None,
) -> Args:
    kind = columns["kind"]
    integers: dict[str, IntColumn] = {}

    def keep(key: str, rows: NDArray[np.intp], values: Int64) -> None:
        if len(rows):
            integers[key] = IntColumn(rows.astype(np.uint32), values.astype(np.int64))

    work = np.flatnonzero(kind < _RUNTIME)
    for key in ("device", "context", "stream"):
        keep(key, work, columns[key][work])
    keep("correlation", np.arange(len(kind)), columns["correlation"])
    moves = np.flatnonzero((kind == _MEMCPY) | (kind == _MEMSET))
    keep(BYTES, moves, columns["bytes"][moves])
    kernels = np.flatnonzero(kind == _KERNEL)
    shape = columns["shape"][kernels]
    keep("registers per thread", kernels, shapes[shape, 6])
    keep("shared memory", kernels, shapes[shape, 7])
    in_graph = np.flatnonzero(columns["graph"])
    keep("graph id", in_graph, columns["graph"][in_graph])
    keep("graph node id", in_graph, columns["graph_node"][in_graph])
    if nodes is not None:
        keep(CAPTURED_NODE, nodes["work"], nodes["of_work"])
    rest = np.zeros(len(kind), np.uint32)
    if len(kernels):
        rest[kernels] = fragments[shape]
    return Args(integers, rest)
