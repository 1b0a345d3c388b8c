"""pprof's profiles, which ``go tool pprof`` and the viewers of Google and Grafana read.

See https://github.com/google/pprof/blob/main/proto/profile.proto. A trace with samples is written
as its sampled stacks, another one as the self time of slices by call path, on the host and on
devices. The thread, and the state of a sample, are labels.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope import _native
from stepscope.analysis.calls.launches import launched_work
from stepscope.analysis.code.own_lines import place_of
from stepscope.formats.base.files import gzipped, output_file
from stepscope.formats.base.registry import Progress
from stepscope.formats.base.sampled import thread_titles
from stepscope.trace.kinds import ThreadState, WaitReason
from stepscope.trace.model import NO_PARENT, Bool, Int64, Trace

Fields = list[tuple[int, Any]]

_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD, _DEFAULT_TYPE = 9, 10, 11, 12, 14
_PERIOD_NS = 1_000_000  # the approximate sampling period

_NO_PATH = -1


def export_pprof(
    trace: Trace, path: str | os.PathLike[str], progress: Progress | None = None
) -> None:
    """Write ``trace`` as a gzip-compressed profile, as pprof's own tools do."""
    profile = _Profile()
    if len(trace.samples):
        _add_samples(trace, profile)
    else:
        _add_slices(trace, profile)
    started_ns = trace.info.start_ns + trace.info.wall_offset_ns
    if trace.info.wall_offset_ns and started_ns > 0:
        profile.fields.append((_TIME, started_ns))
    profile.fields.append((_DURATION, max(trace.info.end_ns - trace.info.start_ns, 0)))
    data = profile.encoded()
    with output_file(path) as sink:
        # The output file compresses names that end in .gz.
        sink.write(data if str(path).lower().endswith(".gz") else gzipped(data))
    if progress is not None:
        progress(1, 1)


class _Profile:
    """The messages of a profile; texts and locations are interned."""

    def __init__(self) -> None:
        self.fields: Fields = []
        self._texts = {"": 0}
        self._locations: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._places: Fields = []

    def text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def value_types(self, *types: tuple[str, str]) -> None:
        """Declare the sample values; pprof shows the last one first."""
        for kind, unit in types:
            self.fields.append((_SAMPLE_TYPE, [(1, self.text(kind)), (2, self.text(unit))]))
        self.fields.append((_DEFAULT_TYPE, self.text(types[-1][0])))

    def location(self, frame: str) -> int:
        """Return the number of a frame, given as the trace writes it."""
        if frame in self._locations:
            return self._locations[frame]
        number = self._locations[frame] = len(self._locations) + 1
        place = place_of(frame)
        name, file, line = (
            (frame, "", 0) if place is None else (place.function, place.file, place.line)
        )
        function = self._functions.setdefault((name, file), len(self._functions) + 1)
        about: Fields = [(1, function), *([(2, line)] if line else [])]
        self._places.append((_LOCATION, [(1, number), (4, about)]))
        return number

    def sample(
        self, frames: Iterable[int], values: Iterable[int], labels: Iterable[tuple[str, str]]
    ) -> None:
        """Add a sample; the innermost frame comes first."""
        message: Fields = [(1, packed(frames)), (2, packed(values))]
        message += [(3, [(1, self.text(key)), (2, self.text(value))]) for key, value in labels]
        self.fields.append((_SAMPLE, message))

    def encoded(self) -> bytes:
        functions: Fields = [
            (
                _FUNCTION,
                [(1, number), (2, self.text(name)), (3, self.text(name)), (4, self.text(file))],
            )
            for (name, file), number in self._functions.items()
        ]
        texts: Fields = [(_STRING, text) for text in self._texts]
        return _native.encode_proto_fields([*self.fields, *self._places, *functions, *texts])


def packed(numbers: Iterable[int]) -> bytes:
    """Return numbers as protobuf packs them."""
    out = bytearray()
    for number in numbers:
        rest = number & 0xFFFFFFFFFFFFFFFF
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def _add_samples(trace: Trace, profile: _Profile) -> None:
    profile.value_types(("samples", "count"), ("time", "nanoseconds"))
    period: Fields = [(1, profile.text("time")), (2, profile.text("nanoseconds"))]
    profile.fields += [(_PERIOD_TYPE, period), (_PERIOD, _PERIOD_NS)]
    samples, titles = trace.samples, thread_titles(trace)
    key = np.stack(
        [samples.stack, samples.track, samples.state, samples.wait], axis=1, dtype=np.int64
    )
    distinct, which = np.unique(key, axis=0, return_inverse=True)
    count = np.bincount(which.ravel(), minlength=len(distinct))
    ns = _summed(which.ravel(), samples.duration_ns, len(distinct))
    for i, (stack, track, state, wait) in enumerate(distinct.tolist()):
        frames = [profile.location(trace.strings[f]) for f in trace.stacks.frames(stack)]
        labels = [("thread", titles[track]), ("state", ThreadState(state).name.lower())]
        if state == ThreadState.BLOCKED:
            labels.append(("waits for", WaitReason(wait).name.lower()))
        profile.sample(frames, (int(count[i]), int(ns[i])), labels)


def _add_slices(trace: Trace, profile: _Profile) -> None:
    profile.value_types(("events", "count"), ("device", "nanoseconds"), ("host", "nanoseconds"))
    slices, paths, titles = trace.slices, _call_paths(trace), thread_titles(trace)
    numbers = [profile.location(trace.strings[name]) for name in paths.name.tolist()]
    key = paths.of_slice * max(len(trace.tracks), 1) + paths.track
    rows = np.flatnonzero(paths.of_slice != _NO_PATH)
    distinct, first, which = np.unique(key[rows], return_index=True, return_inverse=True)
    own_ns = slices.self_ns[rows]
    on_device = paths.is_device[rows]
    events = np.bincount(which, minlength=len(distinct))
    device_ns = _summed(which, np.where(on_device, own_ns, 0), len(distinct))
    host_ns = _summed(which, np.where(on_device, 0, own_ns), len(distinct))
    above = paths.parent.tolist()
    for i, row in enumerate(rows[first].tolist()):
        frames, path = [], int(paths.of_slice[row])
        while path != _NO_PATH:
            frames.append(numbers[path])
            path = above[path]
        values = (int(events[i]), int(device_ns[i]), int(host_ns[i]))
        profile.sample(frames, values, [("thread", titles[int(paths.track[row])])])


def _summed(group: Int64, values: Int64, groups: int) -> Int64:
    """Sum integers exactly: a float would lose ns of long recordings."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, values)
    return total


@dataclass(frozen=True, slots=True)
class _CallPaths:
    """A tree of names; callers come before their callees."""

    parent: Int64  # the path without its last name, _NO_PATH at the top
    name: Int64  # string id
    of_slice: Int64  # the path of each slice
    track: Int64  # the track of each slice; of device work, that of the launching call
    is_device: Bool  # of each slice


def _call_paths(trace: Trace) -> _CallPaths:
    slices = trace.slices
    around = slices.parent.astype(np.int64)
    depth = slices.depth.astype(np.int64)
    track = slices.track.astype(np.int64)
    is_device = slices.on_device
    work, call = launched_work(trace)
    on_top = around[work] == NO_PARENT  # work nested on a stream stays below its parent
    work, call = work[on_top], call[on_top]
    around[work], depth[work], track[work] = call, depth[call] + 1, track[call]
    of_slice = np.full(len(slices), _NO_PATH, np.int64)
    parents, names = [], []
    count = 0
    waiting = np.arange(len(slices))
    ready = around == NO_PARENT
    while len(waiting):
        chosen = waiting[ready[waiting]]
        if not len(chosen):
            break
        above = np.where(around[chosen] == NO_PARENT, _NO_PATH, of_slice[around[chosen]])
        key = (above + 1) * len(trace.strings) + slices.name[chosen]
        distinct, first, number = np.unique(key, return_index=True, return_inverse=True)
        of_slice[chosen] = count + number
        parents.append(above[first])
        names.append(slices.name[chosen[first]].astype(np.int64))
        count += len(distinct)
        waiting = waiting[~ready[waiting]]
        done = of_slice != _NO_PATH
        ready[waiting] = done[around[waiting]]
    return _CallPaths(
        np.concatenate([*parents, np.zeros(0, np.int64)]),
        np.concatenate([*names, np.zeros(0, np.int64)]),
        of_slice,
        track,
        is_device,
    )
