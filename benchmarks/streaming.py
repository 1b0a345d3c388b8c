"""What streaming adds to a recorded range: the same loop with it and without, in turns.

python benchmarks/streaming.py [rounds]
"""

from __future__ import annotations

import statistics
import subprocess
import sys

LOOP = """
import sys, tempfile
from stepscope import _native
if sys.argv[1] == "on":
    folder = tempfile.mkdtemp(dir="/dev/shm")
    _native.start_stream(folder, folder + "/segments", 1 << 34)
window = _native.open_window(0, False)
_native.overhead_ns(100_000)
print(min(_native.overhead_ns(200_000) for _ in range(10)))
if sys.argv[1] == "on":
    import shutil
    _native.stop_stream()
    shutil.rmtree(folder)
"""


def main() -> None:
    """Print the median cost of a range, with and without, and their ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(rounds):
        for way, costs in found.items():
            done = subprocess.run(
                [sys.executable, "-c", LOOP, way], capture_output=True, text=True, check=True
            )
            costs.append(float(done.stdout))
    off, on = (statistics.median(found[way]) for way in ("off", "on"))
    print(f"a range: {off:.1f} ns, streamed {on:.1f} ns: {on / off:.3f} x")


if __name__ == "__main__":
    main()
