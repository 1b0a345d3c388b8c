"""Writes a large memory snapshot as PyTorch does, without PyTorch and without much memory.

    python benchmarks/make_snapshot.py big.pickle --gigabytes 1

The events of a training loop: each step allocates and frees a few hundred tensors, every event with
a stack of its own list of shared frames, as ``torch.cuda.memory._dump_snapshot`` writes them.
"""

from __future__ import annotations

import argparse
import random
import struct
from pathlib import Path
from typing import BinaryIO

_FRAMES = 3000
_STACKS = 2000
_FIRST_US = 1_700_000_000_000_000
_BATCH = 1000  # events that Python's pickler appends at once


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--depth", type=int, default=40, help="frames a stack")
    args = parser.parse_args()
    with args.path.open("wb") as file:
        _Writer(file, args.depth).write(int(args.gigabytes * 1e9))
    print(f"{args.path}: {args.path.stat().st_size / 1e9:.2f} GB")


class _Writer:
    """Writes the opcodes of protocol 4."""

    def __init__(self, file: BinaryIO, depth: int) -> None:
        self._file = file
        self._memo = 0
        self._pickled_texts: dict[str, bytes] = {}
        self._rng = random.Random(1)
        self._depth = depth

    def write(self, size: int) -> None:
        """Write a snapshot of about so many bytes."""
        self._file.write(b"\x80\x04}" + self._stored() + b"(")
        self._file.write(self._text("segments") + b"]" + self._stored())
        self._file.write(self._text("device_traces") + b"]" + self._stored() + b"(")
        self._file.write(b"]" + self._stored())
        self._write_events(size)
        self._file.write(b"e" + b"u.")

    def _write_events(self, size: int) -> None:
        frames = self._frames()
        stacks = [b"".join(self._rng.choices(frames, k=self._depth)) for _ in range(_STACKS)]
        live: list[tuple[int, int]] = []
        time_us, address = _FIRST_US, 0x7F00_0000_0000
        while self._file.tell() < size:
            out = [b"("]
            for _ in range(_BATCH):
                time_us += self._rng.randrange(30)
                stack = self._rng.choice(stacks)
                if len(live) > 2000 or (live and self._rng.random() < 0.45):
                    block = live.pop(self._rng.randrange(len(live)))
                    out.append(self._event("free_requested", *block, time_us, stack))
                    out.append(self._event("free_completed", *block, time_us, stack))
                else:
                    block = address, 512 * self._rng.randrange(1, 100_000)
                    address += block[1]
                    live.append(block)
                    out.append(self._event("alloc", *block, time_us, stack))
            self._file.write(b"".join([*out, b"e"]))

    def _frames(self) -> list[bytes]:
        """Write all frames once, under a key of their own; return how each is recalled."""
        recalled = []
        self._file.write(b"(")  # a first event, whose stack has every frame
        for i in range(_FRAMES):
            if i == 0:
                self._file.write(b"}" + self._stored() + b"(" + self._text("frames") + b"]")
                self._file.write(self._stored() + b"(")
            self._file.write(b"}" + self._stored() + b"(")
            recalled.append(b"j" + struct.pack("<I", self._memo - 1))
            self._file.write(self._text("name") + self._text(f"function_{i}"))
            file = f"/home/me/project/package_{i % 300}/module_{i}.py"
            self._file.write(self._text("filename") + self._text(file))
            self._file.write(self._text("line") + b"M" + struct.pack("<H", i) + b"u")
        self._file.write(b"e" + self._text("action") + self._text("snapshot"))
        self._file.write(self._text("size") + b"K\x00" + self._text("time_us"))
        self._file.write(_number(_FIRST_US) + b"ue")
        return recalled

    def _event(self, action: str, address: int, size: int, time_us: int, stack: bytes) -> bytes:
        out = [b"}", self._stored(), b"(", self._text("action"), self._text(action)]
        out += [self._text("addr"), _number(address), self._text("size"), _number(size)]
        out += [self._text("stream"), b"K\x00", self._text("time_us"), _number(time_us)]
        out += [self._text("compile_context"), self._text("N/A")]
        out += [self._text("frames"), b"]", self._stored(), b"(", stack, b"eu"]
        return b"".join(out)

    def _stored(self) -> bytes:
        self._memo += 1
        return b"\x94"

    def _text(self, text: str) -> bytes:
        if text in self._pickled_texts:
            return self._pickled_texts[text]
        self._pickled_texts[text] = b"j" + struct.pack("<I", self._memo)
        data = text.encode()
        return b"\x8c" + bytes([len(data)]) + data + self._stored()


def _number(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(8, "little")
    return b"\x8a\x08" + data


if __name__ == "__main__":
    main()
