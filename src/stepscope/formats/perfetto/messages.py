"""The few Perfetto messages that are made in Python: tracks, clocks, and our private data.

The field numbers are those of Perfetto's protos/perfetto/trace/*.proto; ``native/perfetto`` makes
the messages of events.
"""

from __future__ import annotations

import json
from typing import Any

from stepscope import _native

Fields = list[tuple[int, Any]]  # a number, and an int, a text, bytes or fields again

_PACKET = 1
_SEQUENCE, _FLAGS, _CLOCK_SNAPSHOT, _TRACK = 10, 13, 6, 60
_OWN = 77_000_021  # a field that Perfetto does not have, and so passes over
_OUR_SEQUENCE = 1  # of these packets; events have others
_STATE_CLEARED, _NEEDS_STATE = 1, 2
_THREAD, _INTERNED, _PROFILE = 44, 12, 54
_REALTIME, _MONOTONIC = 1, 3
_EXPLICIT_ORDER = 3
_BYTES_UNIT, _COUNT_UNIT = 3, 2


def packet(fields: Fields) -> bytes:
    """Return a packet as it is stored in a file."""
    return _native.encode_proto_fields([(_PACKET, [*fields, (_SEQUENCE, _OUR_SEQUENCE)])])


def clocks(now_ns: int, wall_offset_ns: int) -> bytes:
    """Declare that times are monotonic, and relate them to the time of day."""
    snapshot: Fields = [(1, [(1, _MONOTONIC), (2, now_ns)])]
    if wall_offset_ns and now_ns + wall_offset_ns > 0:
        snapshot.append((1, [(1, _REALTIME), (2, now_ns + wall_offset_ns)]))
    snapshot.append((2, _MONOTONIC))
    return packet([(_CLOCK_SNAPSHOT, snapshot), (_FLAGS, _STATE_CLEARED)])


def own(content: dict[str, Any]) -> bytes:
    """Store what Perfetto has no field for."""
    return packet([(_OWN, json.dumps(content, default=str))])


def process(uuid: int, pid: int, name: str, label: str, order: int | None) -> bytes:
    about: Fields = [(1, pid), (6, name)]
    about += [(8, label)] if label else []
    about += [(3, order)] if order is not None else []
    return packet([(_TRACK, [(1, uuid), (3, about)])])


def thread(uuid: int, process_uuid: int, ids: tuple[int, int], name: str) -> bytes:
    about: Fields = [(1, ids[0]), (2, ids[1])]
    about += [(5, name)] if name else []
    return packet([(_TRACK, [(1, uuid), (5, process_uuid), (4, about)])])


def group(uuid: int, name: str, rank: int) -> bytes:
    """Describe a device or a made-up process of a tool."""
    fields: Fields = [(1, uuid), (2, name), (11, _EXPLICIT_ORDER), (12, rank)]
    return packet([(_TRACK, fields)])


def line(uuid: int, parent_uuid: int, name: str, rank: int) -> bytes:
    """Describe a line of a group, such as a stream."""
    return packet([(_TRACK, [(1, uuid), (5, parent_uuid), (2, name), (12, rank)])])


def counter(uuid: int, parent_uuid: int, name: str, *, is_bytes: bool) -> bytes:
    unit: Fields = [(3, _BYTES_UNIT if is_bytes else _COUNT_UNIT)]
    parent: Fields = [(5, parent_uuid)] if parent_uuid else []
    return packet([(_TRACK, [(1, uuid), *parent, (2, name), (8, unit)])])


def sampled_thread(sequence: int, ids: tuple[int, int], first_us: int) -> bytes:
    """Declare the thread of a sequence's samples, and the time that they start from."""
    about: Fields = [(1, ids[0]), (2, ids[1]), (6, first_us)]
    fields: Fields = [(_THREAD, about), (_SEQUENCE, sequence), (_FLAGS, _STATE_CLEARED)]
    return _native.encode_proto_fields([(_PACKET, fields)])


def samples(sequence: int, interned: Fields, stacks: list[int], deltas_us: list[int]) -> bytes:
    """Return samples: their stacks, and the time since the sample before."""
    profile = _repeated(1, stacks) + _repeated(2, deltas_us)
    fields: Fields = [(_SEQUENCE, sequence), (_FLAGS, _NEEDS_STATE), (_INTERNED, interned)]
    return _native.encode_proto_fields([(_PACKET, [*fields, (_PROFILE, profile)])])


def _repeated(field: int, numbers: list[int]) -> Fields:
    return [(field, number) for number in numbers]
