"""What streaming adds to an operator and to an empty range: with it and without, in turns.

Each turn is a process of its own. The cost is the processor time of the thread that records, as
others use the same machine; of many short blocks the lower quartile counts, and the mean is told
beside it. What an operator costs without a recorder is measured in the same process, before it.

python benchmarks/streaming.py [rounds]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

LOOP = """
import json, shutil, sys, tempfile, time
from stepscope import _native

BLOCKS = 60

def costs(block, count):
    found = []
    for _ in range(BLOCKS):
        before = time.thread_time_ns()
        block(count)
        found.append((time.thread_time_ns() - before) / count)
    return sorted(found)[BLOCKS // 4], sum(found) / BLOCKS

def add(count):
    for _ in range(count):
        torch.add(x, x, out=x)

streamed, what = sys.argv[1] == "on", sys.argv[2]
bare = 0.0, 0.0
if what == "operator":
    import torch
    torch.set_num_threads(1)
    x = torch.zeros(8)
    add(20_000)
    bare = costs(add, 5_000)
if streamed:
    folder = tempfile.mkdtemp(dir="/dev/shm")
    _native.start_stream(folder, folder + "/segments", 1 << 34)
if what == "operator":
    from stepscope.torch import ProfilerActivity, profile
    recorded = profile(activities=[ProfilerActivity.CPU])
    recorded.start()
    add(20_000)
    found = costs(add, 5_000)
else:
    window = _native.open_window(0, False)
    _native.overhead_ns(100_000)
    found = costs(_native.overhead_ns, 20_000)
print(json.dumps([a - b for a, b in zip(found, bare)]))
if streamed:
    _native.stop_stream()
    shutil.rmtree(folder)
sys.stdout.flush()
import os
os._exit(0)
"""


def main() -> None:
    """Print what a recorded operator and a range cost, with and without, and the ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for what in ("range", "operator"):
        by_name: dict[str, list[list[float]]] = {"off": [], "on": []}
        for _ in range(rounds):
            for way, costs in by_name.items():
                done = subprocess.run(
                    [sys.executable, "-c", LOOP, way, what],
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                costs.append(json.loads(done.stdout))
        for place, called in enumerate(("lower quartile", "mean")):
            off, on = (
                statistics.median(item[place] for item in by_name[way]) for way in ("off", "on")
            )
            print(f"{what}, {called}: {off:.1f} ns, streamed {on:.1f} ns: {on / off:.3f} x")


if __name__ == "__main__":
    main()
