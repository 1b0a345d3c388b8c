"""Damages a pickle: by its values, as a program that writes such files might, and by opcodes."""

from __future__ import annotations

import pickle
import pickletools
from typing import TYPE_CHECKING, Any

from fuzzing.values import any_value, damaged_bytes, random_place

if TYPE_CHECKING:
    import random

_OPCODES = (
    b"()}]aeusdlt.0122NKMJGXUTBCqrhjcioRbPQ\x80\x81\x82\x85\x86\x87\x88\x8a\x8b\x8c\x8d\x93\x94\x95"
)


def damaged_pickle(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a pickle of other values, or with other opcodes."""
    if rng.random() < 0.5:
        return _other_opcode(data, rng)
    value = pickle.loads(data)
    done = [_change(value, rng) for _ in range(rng.choice((1, 1, 3)))]
    try:
        return pickle.dumps(value, rng.choice((2, 4, 5))), ", ".join(done)
    except (RecursionError, OverflowError, ValueError):
        return damaged_bytes(data, rng), "bytes"


def _other_opcode(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    at = rng.choice(places)
    opcode = bytes([rng.choice(_OPCODES)])
    match rng.randrange(4):
        case 0:
            return data[:at] + opcode + data[at + 1 :], f"opcode {opcode!r} at {at}"
        case 1:
            return data[:at] + opcode + data[at:], f"{opcode!r} before {at}"
        case 2:
            end = rng.choice(places)
            return data[:at] + data[max(at, end) :], f"without {at} to {end}"
        case _:
            first = rng.choice(places)
            end = min(first + rng.randrange(200), len(data))
            return data[:at] + data[first:end] + data[at:], f"{first} to {end} again at {at}"


def _change(value: Any, rng: random.Random) -> str:
    """Put another value at a random place."""
    holder, path = random_place(value, rng)
    if not path:
        return "nothing"
    key = path[-1]
    other = rng.choice((any_value(rng, 1), holder, -1, 1 << 63, 1 << 64, 2.5, b"x", None, ""))
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, other)
        case _:
            holder[key] = other
    return "/".join(map(str, path))[-60:]
