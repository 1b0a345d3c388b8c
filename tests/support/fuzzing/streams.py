"""Damages the folder of a recording that was never sealed, as somebody does who knows its files."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from fuzzing.values import damaged_bytes, damaged_json, hostile_text

if TYPE_CHECKING:
    import random
    from pathlib import Path

_FRAME, _ENTRY = "<IIQQ", "<II"  # magic, kind, bytes, checksum; kind, bytes
_MAGIC = 0x46505353
_JOURNAL = 1
_KINDS = range(1, 20)  # of entries
_META, _PADDING = 17, 8
_MASK = (1 << 64) - 1
_FACTOR = 0x9E3779B97F4A7C15
_EDGES = (0, 1, 2, 3, 7, 127, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
_WIDE = (*_EDGES, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)

# A program with ranges on two threads, a worker and collections, and with another argument also
# operators. What it has streamed so far is copied to its first argument.
_PROGRAM = """
import gc, multiprocessing, shutil, sys, threading, time
from stepscope import _native, record_function

def emit(name, times):
    for number in range(times):
        with record_function(name, args=str(number)):
            sum(range(1000))

def work(ready):
    emit("worker", 20)
    _native.flush_stream()
    ready.set()
    time.sleep(60)

if __name__ == "__main__":
    ready = multiprocessing.Event()
    worker = multiprocessing.Process(target=work, args=(ready,), daemon=True)
    worker.start()
    other = threading.Thread(target=emit, args=("other", 20))
    other.start()
    other.join()
    gc.collect()
    if sys.argv[2:]:
        import torch
        for _ in range(3):
            torch.ones(4, 4).matmul(torch.ones(4, 4)).relu()
    ready.wait()
    with record_function("open"):
        _native.flush_stream()
        shutil.copytree(f"out.{sys.argv[1]}", sys.argv[1])
"""

Frame = tuple[int, bytes]  # its kind, and what is in it


def save_streams(folder: Path, *words: str) -> list[Path]:
    """Record a program without a tmpfs; return what it had streamed.

    ``words`` are further arguments of the program.
    """
    program, target = folder / "program.py", folder / f"stream{len(words)}.stepscope"
    program.write_text(_PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "stepscope", "run", "--workers", "--no-report"]
    subprocess.run(
        [*command, "-o", f"out.{target.name}", program.name, target.name, *words],
        cwd=folder,
        env={**os.environ, "STEPSCOPE_STREAM_MEMORY": "off"},
        capture_output=True,
        check=True,
    )
    return [target]


def mutate(folder: Path, rng: random.Random, outside: Path) -> str:
    """Damage a stream, which may name a folder ``outside``; return in words what was done."""
    segments = sorted(folder.glob("*.segments"))
    kind = rng.random()
    if kind < 0.2:
        return _mutate_description(folder / "stream.json", rng, outside)
    if kind < 0.3:
        return _mutate_place(rng.choice([*segments, folder / "stream.json"]), rng, outside)
    if kind < 0.35:
        return _add_file(folder, rng, outside)
    file = rng.choice(segments)
    frames = frames_of(file.read_bytes())
    done = [_mutate_frames(frames, rng, outside) for _ in range(rng.choice((1, 1, 2, 4)))]
    data = b"".join(framed(*frame) for frame in frames)
    if rng.random() < 0.1:
        data = damaged_bytes(data, rng)
        done.append("bytes")
    file.write_bytes(data)
    return f"{file.name}: {', '.join(done)}"


def frames_of(data: bytes) -> list[Frame]:
    """Return the frames of a file of segments."""
    frames, at, header = [], 0, struct.calcsize(_FRAME)
    while at + header <= len(data):
        _, kind, size, _ = struct.unpack_from(_FRAME, data, at)
        at += header
        frames.append((kind, data[at : at + size]))
        at += size
    return frames


def framed(kind: int, data: bytes) -> bytes:
    """Return a frame as the recorder writes it, with its checksum."""
    return struct.pack(_FRAME, _MAGIC, kind, len(data), _checksum(data)) + data


@lru_cache(256)
def _checksum(data: bytes) -> int:
    """Return what the core calls the hash of a text."""
    first, second = len(data), ~len(data) & _MASK
    at = 0
    while len(data) - at > 16:
        low, high = struct.unpack_from("<QQ", data, at)
        first, second = _mixed(first, low), _mixed(second, high)
        at += 16
    if len(data) - at >= 8:
        first = _mixed(first, struct.unpack_from("<Q", data, at)[0])
        second = _mixed(second, struct.unpack_from("<Q", data, len(data) - 8)[0])
    else:
        first = _mixed(first, int.from_bytes(data[at:], "little"))
    return _mixed(first, second) * _FACTOR & _MASK


def _mixed(value: int, word: int) -> int:
    value = (value ^ word) * _FACTOR & _MASK
    return value ^ value >> 32


# ---- what a frame holds


def _mutate_frames(frames: list[Frame], rng: random.Random, outside: Path) -> str:
    if not frames:
        return "nothing"
    at = rng.randrange(len(frames))
    kind, data = frames[at]
    if rng.random() < 0.15:
        match rng.randrange(4):
            case 0:
                del frames[at]
            case 1:
                frames.insert(rng.randrange(len(frames)), frames[at])
            case 2:
                frames[at] = (rng.choice((0, 1, 2, 3, 4, 5, 2**32 - 1)), data)
            case _:
                frames[at] = (kind, data[: rng.randrange(len(data) + 1)])
        return f"frame {at}"
    if kind != _JOURNAL:
        frames[at] = (kind, _other_number(data, rng))
        return f"records of frame {at}"
    entries = _entries_of(data)
    what = _mutate_entries(entries, rng, outside) if entries else "nothing"
    frames[at] = (kind, b"".join(_entry(*entry) for entry in entries))
    return what


def _entries_of(data: bytes) -> list[Frame]:
    entries, at = [], 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(_ENTRY, data, at)
        entries.append((kind, data[at + 8 : at + 8 + size]))
        at += 8 + -(-size // _PADDING) * _PADDING
    return entries


def _entry(kind: int, data: bytes) -> bytes:
    return struct.pack(_ENTRY, kind, len(data)) + data + bytes(-len(data) % _PADDING)


def _mutate_entries(entries: list[Frame], rng: random.Random, outside: Path) -> str:
    notes = [at for at, (kind, _) in enumerate(entries) if kind == _META]
    at = rng.choice(notes) if notes and rng.random() < 0.3 else rng.randrange(len(entries))
    kind, data = entries[at]
    if kind == _META and rng.random() < 0.9:
        size = struct.unpack_from("<I", data)[0]
        text, what = damaged_json(data[8 + size :].decode("utf-8", "replace"), rng)
        if rng.random() < 0.2:
            text = text.replace(b'"/', json.dumps(f"{outside}/").encode()[:-1], 1)
        entries[at] = (kind, data[: 8 + size] + text)
        return f"{data[8 : 8 + size].decode()}/{what}"
    match rng.randrange(7):
        case 0:
            del entries[at]
        case 1:
            entries.insert(rng.randrange(len(entries)), entries[at])
        case 2:
            entries[at] = (rng.choice(_KINDS), data)
        case 3:
            entries[at] = (kind, data + hostile_text(rng).encode("utf-8", "surrogatepass"))
        case 4:
            entries[at] = (kind, data[: rng.randrange(len(data) + 1)])
        case _:
            entries[at] = (kind, _other_number(data, rng))
    return f"entry {at} of kind {kind}"


def _other_number(data: bytes, rng: random.Random) -> bytes:
    """Change one of the numbers of 4 or 8 bytes."""
    form, edges = rng.choice((("<I", _EDGES), ("<Q", _WIDE)))
    size = struct.calcsize(form)
    if len(data) < size:
        return data
    changed = bytearray(data)
    at = rng.randrange(len(data) // size) * size
    near = struct.unpack_from(form, data, at)[0] + rng.choice((-1, 1, 8, 1000))
    mask = (1 << 8 * size) - 1
    struct.pack_into(form, changed, at, rng.choice((*edges, near)) & mask)
    return bytes(changed)


# ---- the folder


def _mutate_description(file: Path, rng: random.Random, outside: Path) -> str:
    if rng.random() < 0.3:
        parsed = json.loads(file.read_text())
        key = rng.choice(("memory", "disk", "folder", "output"))
        parsed[key] = parsed["about"][key] = str(outside)
        file.write_text(json.dumps(parsed))
        return f"stream.json: {key} is a folder outside"
    text, what = damaged_json(file.read_text(), rng)
    file.write_bytes(text)
    return f"stream.json: {what}"


def _mutate_place(file: Path, rng: random.Random, outside: Path) -> str:
    what = rng.choice(("gone", "empty", "pipe", "folder", "link", "device", "socket", "huge"))
    file.unlink()
    match what:
        case "empty":
            file.write_bytes(b"")
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(outside / rng.choice(("notes.txt", "other.json", "folder")))
        case "device":
            file.symlink_to("/dev/zero")
        case "socket":
            _bind(file)
        case "huge":
            with file.open("wb") as hole:
                hole.truncate(rng.choice((1 << 33, 1 << 40)))
    return f"{file.name} is {what}"


def _bind(file: Path) -> None:
    """Make a socket; its address may be longer than the system allows."""
    here = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{file.name}")
    finally:
        os.close(here)


def _add_file(folder: Path, rng: random.Random, outside: Path) -> str:
    name = rng.choice(
        ("1.segments", "0.segments", f"{10**30}.segments", "-1.segments", "x.segments", "children")
    )
    place = folder / name
    match rng.randrange(3):
        case 0:
            place.symlink_to(outside)
        case 1:
            place.symlink_to(outside / "notes.txt")
        case _ if name == "children":
            (place / "1").mkdir(parents=True)
            (place / "1" / "1-1.delivery").write_bytes(b"cposix\nsystem\n(Vtouch ran\ntR.")
        case _:
            place.write_bytes(hostile_text(rng).encode("utf-8", "surrogatepass"))
    return f"with {name}"
