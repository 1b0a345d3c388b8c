"""XPlane files, encoded here field by field: planes of lines of events."""

from __future__ import annotations

from typing import Any


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def bytes_of(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def entry(field: int, key: int, name: str) -> bytes:
    return bytes_of(field, number(1, key) + bytes_of(2, number(1, key) + bytes_of(2, name)))


def plane(name: str, lines: dict[str, tuple[int, list[tuple[Any, ...]]]], place: int = 0) -> bytes:
    """Return a plane of lines: their start in ns, and events (name, offset ps, duration ps, stats).

    A text among the stats that begins with @ is a reference to a name.
    """
    names: dict[str, int] = {}
    stats: dict[str, int] = {}
    out = number(1, place) + bytes_of(2, name)
    for at, (line, (start_ns, events)) in enumerate(lines.items()):
        data = number(1, at + 1) + bytes_of(2, line) + number(3, start_ns)
        for event, offset, duration, result in events:
            own = number(1, names.setdefault(event, len(names) + 1))
            own += number(2, offset) + number(3, duration)
            for key, value in result.items():
                stat = number(1, stats.setdefault(key, len(stats) + 1))
                if isinstance(value, int):
                    stat += number(4, value)
                elif value.startswith("@"):
                    stat += number(7, stats.setdefault(value[1:], len(stats) + 1))
                else:
                    stat += bytes_of(5, value)
                own += bytes_of(4, stat)
            data += bytes_of(4, own)
        out += bytes_of(3, data)
    out += b"".join(entry(4, key, text) for text, key in names.items())
    out += b"".join(entry(5, key, text) for text, key in stats.items())
    return out


def stream(device: int, number_: int, count: int) -> list[tuple[Any, ...]]:
    """Return work of a stream, some of it at once with that of others."""
    return [
        (
            f"fusion.{i % 3}" if i % 4 else "MemcpyH2D",
            1_000_000 * i + 333 * number_,
            700_001 + 250_000 * (i % 2) + device,
            {"correlation_id": 100 * device + i, "hlo_op": "@dot.1"},
        )
        for i in range(count)
    ]


def profile(count: int = 9) -> tuple[bytes, dict[str, dict[str, tuple[int, list[Any]]]]]:
    """Return a file with a host and two devices, and what is in it."""
    start_ns = 1_700_000_000_000_000_000
    host: list[tuple[Any, ...]] = [
        ("$train.py:12 step", 0, 9_000_000, {}),
        ("train", 100, 8_000_000, {"step_num": 3}),
        ("my range", 200, 7_000_000, {"tag": "a"}),
    ]
    host += [
        ("cuLaunchKernel", 300_000 + 1000 * i, 500, {"correlation_id": i}) for i in range(count)
    ]
    planes: dict[str, dict[str, tuple[int, list[Any]]]] = {
        "/host:CPU": {"python": (start_ns, host)},
        "/device:GPU:0": {
            "Stream #1": (start_ns + 50, stream(0, 1, count)),
            "Stream #2": (start_ns + 55, stream(0, 2, count)),
            "XLA Modules": (start_ns, [("jit_f", 0, 10_000_000, {})]),
        },
        "/device:GPU:1": {"Stream #1": (start_ns, stream(1, 1, count))},
    }
    data = b"".join(
        bytes_of(1, plane(name, lines, place)) for place, (name, lines) in enumerate(planes.items())
    )
    return data + bytes_of(4, "node3"), planes
