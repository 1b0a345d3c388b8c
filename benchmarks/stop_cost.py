"""How long the caller is blocked by stop() and by a cycle's end, with handlers that write files.

    python benchmarks/stop_cost.py [--events 1000000] [--torch-events 100000] [--rounds 5]

The handler exports for Chrome and writes the report; torch.profiler's exports for Chrome and makes
its table, which is what its users do. It gets fewer events, once: the table of a million takes it
over 20 GB and many minutes. Files go into a temporary folder.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch


def operators(count: int) -> None:
    """Run about so many operators: each is one event."""
    a = torch.ones(4)
    for _ in range(count // 2):
        a.add_(1)
        a.mul_(1)


def blocked_by_stop(make: Any, handle: Any, events: int) -> float:
    """Return the seconds that stop() takes."""
    profiler = make(on_trace_ready=handle)
    profiler.start()
    operators(events)
    before = time.perf_counter()
    profiler.stop()
    return time.perf_counter() - before


def blocked_by_cycle(make: Any, schedule: Any, handle: Any, events: int) -> float:
    """Return the seconds that the step() takes at which a cycle ends."""
    plan = schedule(wait=0, warmup=1, active=1, repeat=1)
    profiler = make(on_trace_ready=handle, schedule=plan)
    profiler.start()
    profiler.step()
    operators(events)
    before = time.perf_counter()
    profiler.step()
    took = time.perf_counter() - before
    profiler.stop()
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch-events", type=int, default=100_000, help="0: leave it out")
    args = parser.parse_args()
    import stepscope

    with tempfile.TemporaryDirectory() as folder:
        chrome = stepscope.tensorboard_trace_handler(folder)
        report = stepscope.html_handler(folder)

        def ours(profiler: Any) -> None:
            chrome(profiler)
            report(profiler)

        def theirs(profiler: Any) -> None:
            profiler.export_chrome_trace(str(Path(folder) / "torch.json"))
            str(profiler.key_averages().table())

        rows: dict[tuple[str, int], list[float]] = {}
        for _ in range(args.rounds):
            stop = blocked_by_stop(stepscope.profile, ours, args.events)
            stepscope.wait_for_exports()
            cycle = blocked_by_cycle(stepscope.profile, stepscope.schedule, ours, args.events)
            stepscope.wait_for_exports()
            rows.setdefault(("stepscope stop()", args.events), []).append(stop)
            rows.setdefault(("stepscope a cycle's end", args.events), []).append(cycle)
            for path in Path(folder).iterdir():
                path.unlink()
        if few := args.torch_events:
            profile, schedule = torch.profiler.profile, torch.profiler.schedule
            rows["torch stop()", few] = [blocked_by_stop(profile, theirs, few)]
            rows["torch a cycle's end", few] = [blocked_by_cycle(profile, schedule, theirs, few)]
    print(f"{'caller blocked by':28}{'events':>12}{'median':>12}{'worst':>12}")
    for (name, events), seconds in rows.items():
        middle, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        print(f"{name:28}{events:12,}{middle:9.1f} ms{worst:9.1f} ms")


if __name__ == "__main__":
    main()
