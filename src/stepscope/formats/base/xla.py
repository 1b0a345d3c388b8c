"""Events of XLA (JAX, TensorFlow, torch_xla) without a category: their tracks define the kinds.

A device's streams have the work; its other lines repeat it by module, operator and step. Values in
the arguments may be numbers or texts of digits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepscope import _native
from stepscope.trace.kinds import SliceKind
from stepscope.trace.names import NO_NUMBER, device_number, stream_number
from stepscope.trace.schema import NO_CORRELATION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.trace.model import Track
    from stepscope.trace.schema import Slices
    from stepscope.trace.strings import Strings
    from stepscope.trace.table import Bool, Int64, UInt8, UInt32


XLA_FRAME = re.compile(r"^\$\S+:\d+ ")
"""A call of Python: ``$train.py:12 step``."""

_OPS = "XLA Ops"  # on a device without streams, such as a TPU, this line has the work
_CALL = re.compile(r"^(cu|cuda|hip)[A-Z]\w+$")
_CORRELATION = re.compile(r'"correlation_id": ?"?(\d+)')


def xla_kinds(slices: Slices, tracks: Sequence[Track], strings: Strings) -> UInt8 | None:
    """Return the kinds of all slices without a category; None if no track is a device."""
    on_device = np.array([device_number(track) != NO_NUMBER for track in tracks], np.bool_)
    if not on_device.any():
        return None
    of_work = _by_name(slices.name, strings, _work_kind)
    is_work = _work_tracks(tracks)[slices.track]
    kind = np.where(is_work, of_work, np.uint8(SliceKind.DEVICE_RANGE))
    return np.where(on_device[slices.track], kind, _by_name(slices.name, strings, _host_kind))


def xla_correlations(slices: Slices, tracks: Sequence[Track], strings: Strings) -> Int64:
    """Return the number that a launch and its work share, XLA's ``correlation_id``."""
    if all(device_number(track) == NO_NUMBER for track in tracks):
        return slices.correlation
    numbers = slices.args.dense("correlation_id", len(slices), NO_CORRELATION)
    rest = slices.args.rest
    if len(rest):
        table = np.full(len(strings), NO_CORRELATION, np.int64)
        for fragment in _native.present(rest).tolist():
            match = _CORRELATION.search(strings[fragment])
            if match:
                table[fragment] = int(match[1])
        numbers = np.where(numbers == NO_CORRELATION, table[rest], numbers)
    return np.where(slices.correlation == NO_CORRELATION, numbers, slices.correlation)


def _work_kind(name: str) -> SliceKind:
    lower = name.lower()
    if lower.startswith("memcpy"):
        return SliceKind.MEMCPY
    return SliceKind.MEMSET if lower.startswith("memset") else SliceKind.KERNEL


def _host_kind(name: str) -> SliceKind:
    if _CALL.match(name):
        return SliceKind.RUNTIME
    return SliceKind.PYTHON if XLA_FRAME.match(name) else SliceKind.OTHER


def _work_tracks(tracks: Sequence[Track]) -> Bool:
    """Return which tracks have device work: the streams of a device, else its operators."""
    with_streams = {track.pid for track in tracks if stream_number(track) != NO_NUMBER}
    is_work = [
        stream_number(track) != NO_NUMBER
        if track.pid in with_streams
        else device_number(track) != NO_NUMBER and track.thread_name.strip() == _OPS
        for track in tracks
    ]
    return np.array(is_work, np.bool_)


def _by_name(names: UInt32, strings: Strings, kind: Callable[[str], SliceKind]) -> UInt8:
    table = np.zeros(len(strings), np.uint8)
    for name in _native.present(names).tolist():
        table[name] = kind(strings[name])
    kinds: UInt8 = table[names]
    return kinds
