"""Paddle's profiler result files (``.pb``, a protobuf message NodeTreesProto)."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import TraceReadError, TraceReadWarning
from stepscope.formats.gzip import file_bytes
from stepscope.frameworks.paddle.columns import PRODUCER, PaddleFile, paddle_file
from stepscope.frameworks.paddle.files.told_tree import nested_as_told
from stepscope.trace.build import build
from stepscope.trace.model import TraceInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from stepscope.trace.model import Trace

    Progress = Callable[[int, int], None]

_HEAD = re.compile(rb"\x0a[\x01-\x1f]\d+(\.\d+)*\x10")  # version, and the key of span_index
_NOT_A_TRACE = "is the file a result that paddle.profiler exported?"


def is_paddle_pb(head: bytes) -> bool:
    """Tell whether a file that starts with these bytes is one of Paddle's."""
    return _HEAD.match(head) is not None


def read_paddle_pb(path: str | PathLike[str], progress: Progress | None = None) -> Trace:
    """Read a result that paddle.profiler exported as protobuf, gzip or not.

    Times count from the first event; ``info.wall_offset_ns`` says when that was. What could be read
    of a damaged file is kept; a ``TraceReadWarning`` says so.
    """
    place = Path(path)
    data, damage = file_bytes(place, progress)
    found = paddle_file(data, from_first=True)
    _check(place, data, found, damage)
    damage = damage or found.damage
    if damage:
        count = len(found.captured.slices.start_ns)
        text = f"{place}: {damage}; {count} events could be read"
        warnings.warn(text, TraceReadWarning, stacklevel=2)
    return nested_as_told(build(found.captured, _info(found, damage)), found)


def _check(path: Path, data: bytes, found: PaddleFile, damage: str) -> None:
    if not data:
        raise TraceReadError(path, f"cannot be read: {damage}" if damage else "is empty")
    if len(found.captured.slices.start_ns) or len(found.captured.memory):
        return
    cause = damage or found.damage
    if not is_paddle_pb(data):
        raise TraceReadError(path, "is not a Paddle protobuf", _NOT_A_TRACE)
    if cause:
        raise TraceReadError(path, f"has no readable event: {cause}", _NOT_A_TRACE)


def _info(found: PaddleFile, damage: str) -> TraceInfo:
    slices = found.captured.slices
    ends = slices.start_ns + slices.duration_ns
    pids = {track.pid for track in found.captured.tracks if track.tid in found.extra_info}
    anomalies = dict(found.anomalies)
    if damage:
        anomalies["damaged file"] = 1
    return TraceInfo(
        producer=PRODUCER,
        start_ns=int(slices.start_ns.min(initial=0)),
        end_ns=int(ends.max(initial=0)),
        wall_offset_ns=found.first_ns,
        pid=int(pids.pop()) if len(pids) == 1 else 0,
        anomalies=anomalies,
        user=found.user(),
    )
