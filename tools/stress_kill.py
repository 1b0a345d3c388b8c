"""Kill programs under ``stepscope run`` at random moments, and count what their traces miss.

A program of four threads and two worker processes records ranges as fast as it can. After each, it
writes how many it has ended into a file that is mapped, which tells what was complete before the
signal. Every trace must open, and hold all of it. With ``--memory off`` nothing outlives the
program but what is on disk: then ranges that ended a second before the kill must be there.

    make stress-kill                                     # 200 kills
    python tools/stress_kill.py --kills 20 --memory off  # without a tmpfs
    python tools/stress_kill.py --memory /mnt/small      # a tmpfs of 64 MB, say
    python tools/stress_kill.py --kills 20 --loader      # workers of torch's DataLoader
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PROGRAM = """
import mmap, multiprocessing, os, struct, sys, threading, time
from stepscope import record_function

def emit(slot, board):
    ended = 0
    name = f"slot {slot}"
    while True:
        for _ in range(200):
            with record_function(name):
                pass
            ended += 1
            struct.pack_into("=q", board, 16 * slot, ended)
        struct.pack_into("=q", board, 16 * slot + 8, 1)
        time.sleep(0.01)

def board():
    with open(sys.argv[1], "r+b") as file:
        return mmap.mmap(file.fileno(), 0)

def work(slot):
    emit(slot, board())

class Items:
    def __len__(self):
        return 2

    def __getitem__(self, number):
        work(4 + number)

if __name__ == "__main__":
    for slot in range(4):
        threading.Thread(target=emit, args=(slot, board()), daemon=True).start()
    if sys.argv[2:] == ["loader"]:
        from torch.utils.data import DataLoader
        next(iter(DataLoader(Items(), num_workers=2)))
    for slot in range(4, 6):
        multiprocessing.Process(target=work, args=(slot,), daemon=True).start()
    threading.Event().wait()
"""
SLOTS = 6


def main() -> int:
    """Kill as often as asked; return 1 when anything complete is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", default="", help="off, or a folder of a tmpfs")
    parser.add_argument("--loader", action="store_true", help="workers of torch's DataLoader")
    args = parser.parse_args()
    chance = random.Random(args.seed)
    failures = missing = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(args.kills):
            lost = killed_once(Path(scratch), number, chance, args.memory, is_loader=args.loader)
            failures += lost is None
            missing += lost or 0
            told = "DOES NOT OPEN" if lost is None else f"{lost} missing"
            print(f"kill {number + 1} of {args.kills}: {told}", flush=True)
    print(f"{args.kills} kills, {failures} traces that do not open, {missing} ranges missing")
    return int(bool(failures or missing))


def killed_once(
    scratch: Path, number: int, chance: random.Random, memory: str, *, is_loader: bool
) -> int | None:
    """Run the program, kill it, and return how many ranges are missing; None without a trace."""
    script, counts = scratch / "emitting.py", scratch / f"counts-{number}"
    output = scratch / f"{number}.stepscope"
    script.write_text(PROGRAM, encoding="utf-8")
    counts.write_bytes(bytes(16 * SLOTS))
    environment = {**os.environ, **({"STEPSCOPE_STREAM_MEMORY": memory} if memory else {})}
    command = [sys.executable, "-m", "stepscope", "run", "--workers", "--no-report", "--no-summary"]
    command += ["-o", str(output), str(script), str(counts), *["loader"] * is_loader]
    with counts.open("r+b") as file:
        board = mmap.mmap(file.fileno(), 0)
    program = subprocess.Popen(
        command, stderr=subprocess.PIPE, env=environment, start_new_session=True
    )
    await_all(board, program)
    time.sleep(chance.uniform(0, 1.5) if memory != "off" else chance.uniform(1.5, 3))
    wanted = ended(board)
    if memory == "off":
        time.sleep(1)  # what had ended by now was written
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    if memory != "off":
        wanted = ended(board)
    told = program.stderr.read() if program.stderr else b""  # ends when the watcher has ended
    found = ranges_in(output)
    if found is None:
        print(told.decode(), file=sys.stderr)
        return None
    return sum(max(wanted[slot] - found[f"slot {slot}"], 0) for slot in range(SLOTS))


def await_all(board: mmap.mmap, program: subprocess.Popen[bytes]) -> None:
    """Wait until every thread and worker is at work."""
    while not all(struct.unpack_from("=q", board, 16 * slot + 8)[0] for slot in range(SLOTS)):
        if program.poll() is not None:
            raise SystemExit(f"the program ended by itself: {program.returncode}")
        time.sleep(0.01)


def ended(board: mmap.mmap) -> list[int]:
    """Return how many ranges each thread and worker has ended."""
    return [struct.unpack_from("=q", board, 16 * slot)[0] for slot in range(SLOTS)]


def ranges_in(output: Path) -> Counter[str] | None:
    """Return how many ranges of each name a trace has that have ended."""
    from stepscope.formats import read_trace
    from stepscope.trace.kinds import SliceFlags

    try:
        trace = read_trace(output)
    except Exception as error:
        print(f"{output}: {error}", file=sys.stderr)
        return None
    slices = trace.slices
    names = slices.name[slices.flags & SliceFlags.UNFINISHED == 0]
    return Counter(trace.strings[int(name)] for name in names)


if __name__ == "__main__":
    sys.exit(main())
