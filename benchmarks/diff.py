"""How far ``stepscope diff`` can be trusted: false alarms, slowdowns that were planted, speed.

A small training program is recorded many times in turns, each run a process of its own: twice as
it is, and once with each planted slowdown of 3 % of a step. A comparison takes five turns in a row
and deals the unchanged runs of each turn to the sides at random. Two comparisons may share runs:
recording 3,000 processes for 300 of them would take hours. That is fair to the test, which assumes
no more than that the runs of a turn could change places, and needed only because processes are
slow to start.

    python benchmarks/diff.py --turns 60 --comparisons 300 --keep runs/
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import stepscope
from stepscope.analysis.compare.diff import diff_traces

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis.compare.model import Diff
    from stepscope.trace.model import Trace

RUNS = 5  # a side
PLANTED = 0.03  # of a step
FALSE_ALARMS_BAR = 0.01
FOUND_BAR = 0.90
GUILTY_BAR = 0.95
SPEED_BAR_S = 2.0
UNCHANGED = ("a0", "a1")
GUILTY = {
    "extra operator": ("aten::erf",),
    "slower operator": ("aten::cumsum",),
    "Python loop": ("_count",),
}
COPIES = 8  # of 123,379 events


def main() -> None:
    """Record, compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--comparisons", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="where the recordings are, or go")
    parser.add_argument("--no-speed", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.keep or Path(name)
        if not list(folder.glob("*.stepscope")):
            record_turns(folder, args.turns)
        generator = np.random.default_rng(0)
        for plant in GUILTY:
            _show(_faults_shown(folder, plant, max(args.comparisons // 3, 1), generator))
        _show([_alarms(folder, args.comparisons, generator)])
    if not args.no_speed:
        _show(_speed())


def _show(rows: list[tuple[str, str, str]]) -> None:
    for what, value, bar in rows:
        print(f"{what:<62} {value:>12}   {bar}", flush=True)


def record_turns(folder: Path, turns: int) -> None:
    """Record the program in all its forms, in turns."""
    import diff_program

    folder.mkdir(parents=True, exist_ok=True)
    calibration = folder / "plants.json"
    diff_program.in_child(lambda: calibration.write_text(json.dumps(_calibrated()), "utf-8"))
    amounts = json.loads(calibration.read_text(encoding="utf-8"))
    for module in amounts.pop("modules"):  # what each run would else import for itself
        if module not in sys.modules:
            try:
                importlib.import_module(module)
            except Exception as error:
                print(f"{module}: {error}", file=sys.stderr)
    for turn in range(turns):
        for kind in (*UNCHANGED, *amounts):
            path = folder / f"{turn:04d}-{kind.replace(' ', '_')}.stepscope"
            plant = kind if kind in amounts else ""
            amount = amounts.get(kind, 0)
            diff_program.in_child(functools.partial(diff_program.record, path, plant, amount))
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)


def _calibrated() -> dict[str, object]:
    """Return how much of each plant takes 3 % of a step, by the times that nothing disturbed."""
    import diff_program as program
    import torch

    program.train(50)
    step = np.percentile(np.diff(program.train(400)[50:]), 10)
    wanted = PLANTED * step
    extra = _cost(program.planted("extra operator", 4_000))
    sums = [_cost(lambda n=n: torch.cumsum(torch.ones(n), 0)) for n in (20_000, 40_000)]
    loop = _cost(program.planted("Python loop", 1_000))
    return {
        "extra operator": int(4_000 * wanted / extra),
        "slower operator": int(20_000 * wanted / (sums[1] - sums[0])),
        "Python loop": int(1_000 * wanted / loop),
        "modules": [name for name in sys.modules if name.startswith("torch")],
    }


def _cost(work: Callable[[], object]) -> float:
    times = []
    for _ in range(500):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return float(np.percentile(times, 10))


def _alarms(folder: Path, comparisons: int, generator: np.random.Generator) -> tuple[str, str, str]:
    turns = _turns(folder, *UNCHANGED)
    alarms = 0
    for _ in range(comparisons):
        sides: tuple[list[Path], list[Path]] = ([], [])
        for turn in _window(turns, generator):
            order = generator.permutation(2)
            for side, which in enumerate(order):
                sides[side].append(folder / f"{turn}-{UNCHANGED[which]}.stepscope")
        alarms += _compared(*sides).step.is_real
    share = alarms / comparisons
    return (
        f"the same program compared {comparisons} times: false alarms",
        f"{alarms} = {share:.1%}",
        f"at most {FALSE_ALARMS_BAR:.0%}",
    )


def _faults_shown(
    folder: Path, plant: str, comparisons: int, generator: np.random.Generator
) -> list[tuple[str, str, str]]:
    kind = plant.replace(" ", "_")
    turns = _turns(folder, *UNCHANGED, kind)
    result = guilty = 0
    share = []
    for _ in range(comparisons):
        window = _window(turns, generator)
        before = [folder / f"{t}-{generator.choice(UNCHANGED)}.stepscope" for t in window]
        diff = _compared(before, [folder / f"{turn}-{kind}.stepscope" for turn in window])
        if diff.step.verdict.value != "slower":
            continue
        result += 1
        share.append(diff.step.change)
        guilty += any(word in diff.rows[0].what for word in GUILTY[plant])
    planted = f"{np.median(share):+.1%}" if share else "-"
    return [
        (
            f"{plant}: found in {comparisons} comparisons, as {planted}",
            f"{result} = {result / comparisons:.0%}",
            f"at least {FOUND_BAR:.0%}",
        ),
        (
            f"{plant}: the guilty row is the first",
            f"{guilty} = {guilty / max(result, 1):.0%}",
            f"at least {GUILTY_BAR:.0%}",
        ),
    ]


def _turns(folder: Path, *kinds: str) -> list[str]:
    turns = sorted({path.name[:4] for path in folder.glob("*.stepscope")})
    return [
        turn
        for turn in turns
        if all(
            (folder / f"{turn}-{kind}.stepscope" / "meta.json").parent.exists() for kind in kinds
        )
    ]


def _window(turns: list[str], generator: np.random.Generator) -> list[str]:
    first = int(generator.integers(0, len(turns) - RUNS + 1))
    return turns[first : first + RUNS]


@functools.lru_cache(maxsize=40)
def _trace(path: Path) -> Trace:
    return stepscope.read_trace(path)


def _compared(before: list[Path], after: list[Path]) -> Diff:
    return diff_traces([_trace(p) for p in before], [_trace(p) for p in after], findings=False)


def _speed() -> list[tuple[str, str, str]]:
    """Compare two traces of a million events, beside HTA's trace diff in the same run."""
    from sample import repeat, sample

    with tempfile.TemporaryDirectory() as name:
        source, called = sample(Path(name))
        large = [Path(name) / "before.json.gz", Path(name) / "after.json.gz"]
        for path in large:
            repeat(source, path, COPIES)
        traces = [stepscope.read_trace(path) for path in large]
        what = f"2 x {len(traces[0]):,} events, {called} x {COPIES}"
        ours = min(_timed(lambda: diff_traces(traces[:1], traces[1:])) for _ in range(3))
        values = [(f"{what}: diff", f"{ours:.2f} s", f"at most {SPEED_BAR_S:.0f} s")]
        try:
            from hta.trace_analysis import TraceAnalysis
            from hta.trace_diff import LabeledTrace, TraceDiff
        except ImportError:
            return [*values, ("HTA's trace diff", "not installed", "")]
        loaded = [LabeledTrace(path.name, TraceAnalysis({0: str(path)}, name).t) for path in large]
        theirs = _timed(lambda: TraceDiff.compare_traces(*loaded))
        return [*values, ("HTA's TraceDiff.compare_traces, both loaded", f"{theirs:.2f} s", "")]


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
