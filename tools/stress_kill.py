"""Kill programs under ``stepscope run`` at random moments, and count what their traces miss.

A program of four threads and two worker processes records ranges as fast as it can. After each, it
writes how many it has ended into a file that is mapped, which tells what was complete before the
signal. Every second time the supervisor is killed as well: whoever opens the trace seals it then.
Every trace must open, and hold all of it. With ``--memory off`` nothing outlives the
program but what is on disk: then ranges that ended a second before the kill must be there. With
``--device`` one thread runs kernels on a GPU: those that ended a second before must be there.

    make stress-kill                                     # 200 kills
    python tools/stress_kill.py --kills 20 --memory off  # without a tmpfs
    python tools/stress_kill.py --memory /mnt/small      # a tmpfs of 64 MB, say
    python tools/stress_kill.py --kills 20 --loader      # workers of torch's DataLoader
    python tools/stress_kill.py --kills 20 --device      # with kernels
"""

from __future__ import annotations

import argparse
import contextlib
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

def run_kernels(slot, board):
    import torch
    numbers = torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
    ended = 0
    while True:
        numbers.add_(1)
        torch.cuda.synchronize()
        ended += 1
        struct.pack_into("=qq", board, 16 * slot, ended, 1)

class Items:
    def __len__(self):
        return 2

    def __getitem__(self, number):
        work(4 + number)

if __name__ == "__main__":
    struct.pack_into("=q", board(), len(board()) - 8, os.getpid())
    for slot in range(4):
        threading.Thread(target=emit, args=(slot, board()), daemon=True).start()
    if "device" in sys.argv[2:]:
        threading.Thread(target=run_kernels, args=(6, board()), daemon=True).start()
    if "loader" in sys.argv[2:]:
        from torch.utils.data import DataLoader
        next(iter(DataLoader(Items(), num_workers=2)))
    for slot in range(4, 6):
        multiprocessing.Process(target=work, args=(slot,), daemon=True).start()
    threading.Event().wait()
"""
SLOTS = 6
KERNELS = "the kernels"


def main() -> int:
    """Kill as often as asked; return 1 when anything complete is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", default="", help="off, or a folder of a tmpfs")
    parser.add_argument("--loader", action="store_true", help="workers of torch's DataLoader")
    parser.add_argument("--device", action="store_true", help="with kernels on a GPU")
    args = parser.parse_args()
    extras = [word for word in ("loader", "device") if getattr(args, word)]
    chance = random.Random(args.seed)
    failures = missing = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(args.kills):
            lost = killed_once(Path(scratch), number, chance, args.memory, extras)
            failures += lost is None
            missing += lost or 0
            text = "DOES NOT OPEN" if lost is None else f"{lost} missing"
            print(f"kill {number + 1} of {args.kills}: {text}", flush=True)
    print(f"{args.kills} kills, {failures} traces that do not open, {missing} ranges missing")
    return int(bool(failures or missing))


def killed_once(
    scratch: Path, number: int, chance: random.Random, memory: str, extras: list[str]
) -> int | None:
    """Run the program, kill it, and return how many ranges are missing; None without a trace."""
    slots = SLOTS + ("device" in extras)
    script, counts = scratch / "emitting.py", scratch / f"counts-{number}"
    output = scratch / f"{number}.stepscope"
    script.write_text(PROGRAM, encoding="utf-8")
    counts.write_bytes(bytes(16 * slots + 8))  # and the number of the process
    environment = {**os.environ, **({"STEPSCOPE_STREAM_MEMORY": memory} if memory else {})}
    command = [sys.executable, "-m", "stepscope", "run", "--no-report", "--no-summary"]
    command += ["-o", str(output), str(script), str(counts), *extras]
    with counts.open("r+b") as file:
        board = mmap.mmap(file.fileno(), 0)
    program = subprocess.Popen(
        command, stderr=subprocess.PIPE, env=environment, start_new_session=True
    )
    await_all(board, slots, program)
    time.sleep(chance.uniform(0, 1.5) if memory != "off" else chance.uniform(1.5, 3))
    wanted = ended(board, slots)
    if memory == "off" or slots > SLOTS:
        time.sleep(1)  # what had ended by now was written
    is_answered = number % 2 == 0
    if not is_answered:
        os.kill(program.pid, signal.SIGKILL)
    (process,) = struct.unpack_from("=q", board, 16 * slots)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    errors = program.communicate()[1]
    if memory != "off":
        wanted[:SLOTS] = ended(board, SLOTS)
    if is_answered and b"saved" not in errors:
        print(f"there is no answer: {errors.decode()}", file=sys.stderr)
        return None
    result = ranges_in(output)
    if result is None:
        print(errors.decode(), file=sys.stderr)
        return None
    names = [*(f"slot {slot}" for slot in range(SLOTS)), KERNELS]
    return sum(max(count - result[name], 0) for count, name in zip(wanted, names, strict=False))


def await_all(board: mmap.mmap, slots: int, program: subprocess.Popen[bytes]) -> None:
    """Wait until every thread and worker is at work."""
    while not all(struct.unpack_from("=q", board, 16 * slot + 8)[0] for slot in range(slots)):
        if program.poll() is not None:
            raise SystemExit(f"the program ended by itself: {program.returncode}")
        time.sleep(0.01)


def ended(board: mmap.mmap, slots: int) -> list[int]:
    """Return how many ranges each thread and worker has ended."""
    return [struct.unpack_from("=q", board, 16 * slot)[0] for slot in range(slots)]


def ranges_in(output: Path) -> Counter[str] | None:
    """Return how many ranges of each name a trace has that have ended, and how many kernels."""
    from stepscope.formats import read_trace
    from stepscope.trace.kinds import SliceFlags, SliceKind

    try:
        trace = read_trace(output)
    except Exception as error:
        print(f"{output}: {error}", file=sys.stderr)
        return None
    slices = trace.slices
    names = slices.name[slices.flags & SliceFlags.UNFINISHED == 0]
    counts = Counter(trace.strings[int(name)] for name in names)
    counts[KERNELS] = int((slices.kind == SliceKind.KERNEL).sum())
    return counts


if __name__ == "__main__":
    sys.exit(main())
