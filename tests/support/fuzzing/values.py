"""Values, texts and bytes that are likely to break a reader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

_NUMBERS = (
    *(0, 1, -1, 255, 2**31, 2**32 - 1, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40),
    *(0.5, -0.0, 1e308, -1e308, 1e-320, float("nan"), float("inf"), float("-inf")),
)
_TEXTS = (
    "", " ", "0", "-1", "NaN", "null", "\x00", "\ud800", "\U0001f600", "</script>", '"', "\\",
    "ProfilerStep#1", "ProfilerStep#99999999999999999999", "ProfilerStep#-1", "ProfilerStep#²",
    "ProfileStep#2147483648", "aten::mm", "kernel", "gpu_memcpy", "cpu_op", "user_annotation",
    "module", "ncclDevKernel_AllReduce", "a.py(1): f", "a.py(99999999999999999999): f",
    "/etc/passwd(1): f", "nn.Module: Net_0", "a" * 5000, "é" * 300, "\n", "\r\n\t",
)  # fmt: skip
_FRAGMENTS = (
    '"Input Dims": 5', '"Input Dims": [[[1]], null, "x"]', '"Input Dims": [[-1, 99999999999999]]',
    '"Input Dims": [[1e308, 2]], "Input type": [1, 2]', '"Input type": {}', '"Class": [1]',
    '"Input Dims": ' + "[" * 200 + "]" * 200, '"grid": "x", "block": 7', '"grid": [null]',
    '"Collective name": 5', '"dtype": {}', '"Concrete Inputs": [[]]', '"a": 1' + "0" * 5000,
    '"', "{", '"a"', '"a": ', "}", '"a": 1, ', "[1]", '"event_type": 5', '"Stream": []',
)  # fmt: skip


def hostile_text(rng: random.Random) -> str:
    """Return a text that names, categories, arguments or frames should not be."""
    return rng.choice(_TEXTS) if rng.random() < 0.6 else rng.choice(_FRAGMENTS)


def any_value(rng: random.Random, depth: int = 3) -> Any:
    """Return any value that JSON has, and some that it does not."""
    kind = rng.randrange(8 if depth else 5)
    if kind < 2:
        return rng.choice(_NUMBERS)
    if kind < 4:
        return hostile_text(rng)
    if kind == 4:
        return rng.choice((None, True, False, [], {}))
    if kind == 5:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {hostile_text(rng): any_value(rng, depth - 1) for _ in range(rng.randrange(3))}
    nested: Any = any_value(rng, 0)
    for _ in range(rng.choice((5, 100, 300))):
        nested = [nested]
    return nested


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes of which a few are others."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not damaged:
            break
        at = rng.randrange(len(damaged))
        match rng.randrange(6):
            case 0:
                damaged[at] ^= 1 << rng.randrange(8)
            case 1:
                damaged[at] = rng.randrange(256)
            case 2:
                edge = (b"\xff" * 8, b"\x00" * 8, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x01")
                damaged[at : at + 8] = rng.choice(edge)
            case 3:
                del damaged[at : at + rng.choice((1, 4, 100))]
            case 4:
                damaged[at:at] = damaged[at : at + rng.choice((1, 8, 200))]
            case _:
                damaged[at:at] = rng.choice(
                    (b'"', b"{", b"[", b",", b"}", b"\x80", b"1e999", b"\\u")
                )
    return bytes(damaged)


def damaged_json(text: str, rng: random.Random) -> tuple[bytes, str]:
    """Return JSON with one value, key or list that is another, and in words what was done."""
    try:
        value = json.loads(text)
    except ValueError:  # it was damaged before
        return damaged_bytes(text.encode(), rng), "bytes"
    done = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        done.append(_change_somewhere(value, rng))
    if rng.random() < 0.03:
        value, done = any_value(rng), ["all of it"]
    damaged = json.dumps(value).encode()
    if rng.random() < 0.15:
        damaged = damaged_bytes(damaged, rng)
        done.append("bytes")
    return damaged, ", ".join(done)


def _change_somewhere(value: Any, rng: random.Random) -> str:
    """Change what is at a random place."""
    holder, path = random_place(value, rng)
    if not path:
        return "nothing"
    _change(holder, path[-1], rng)
    return "/".join(map(str, path))[-80:]


def random_place(value: Any, rng: random.Random) -> tuple[Any, list[Any]]:
    """Walk down to a random place: return its holder and the keys to it, none of an empty value."""
    path: list[Any] = []
    if not isinstance(value, dict | list):
        return value, path
    while keys := list(value) if isinstance(value, dict) else list(range(len(value))):
        path.append(rng.choice(keys))
        inner = value[path[-1]]
        if not (isinstance(inner, dict | list) and inner and rng.random() < 0.85):
            break
        value = inner
    return value, path


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    old = holder[key]
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, old)
        case 1:
            holder[hostile_text(rng)] = old
        case 2 if isinstance(old, int | float) and not isinstance(old, bool):
            holder[key] = old + rng.choice((-1, 1, 1000, -(10**6)))
        case 3 if isinstance(old, str):
            at = rng.randrange(len(old) + 1)
            holder[key] = old[:at] + hostile_text(rng) + old[at:]
        case 4:
            holder[key] = rng.choice(("X", "B", "E", "M", "i", "s", "f", "C", "b", "P", "O", ""))
        case 5:
            holder[key] = hostile_text(rng)
        case 6:
            holder[key] = rng.choice(_NUMBERS)
        case _:
            holder[key] = any_value(rng)


def damaged_table(text: str, rng: random.Random) -> tuple[bytes, str]:
    """Return CSV with a cell, a row or a column that is another."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    cells = lines[at].split(",")
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, rng.choice(lines))
        case 2:
            lines[at] = hostile_text(rng)
        case _:
            value = rng.choice((hostile_text(rng), str(rng.choice(_NUMBERS))))
            cells[rng.randrange(len(cells))] = value
            lines[at] = ",".join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass"), f"line {at}"
