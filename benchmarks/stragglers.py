"""Runs the programs with one late rank under ``stepscope run``: are rank and cause named?

``python benchmarks/stragglers.py FOLDER`` records each program of ``tests/bottlenecks/ranks`` with
each number of ranks, writes ``FOLDER/NAME-RANKS`` beside ``FOLDER/expected.json``, which says which
rank is late in it, and why, and holds the findings against that. ``make bench-stragglers`` makes 24
of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "bottlenecks" / "ranks"
TIMEOUT_S = 900
MOST_WRONG = 1  # of 24 runs
# A planted cause, and the words for it in the evidence of a finding.
REASONS = {
    "sleep": "sleeping",
    "data loading": "data-loading",
    "garbage collection": "garbage-collection",
    "CPU contention": "contention",
    "operators": "extra-operators",
}
_CAUSE = re.compile(r"^Straggler: (.+)$", re.MULTILINE)


def programs() -> list[Path]:
    """Return those that state what is wrong with them."""
    return [path for path in sorted(PROGRAMS.glob("*.py")) if _CAUSE.search(path.read_text())]


def expectation(program: Path, late: int) -> dict[str, Any]:
    """Return what an answer should say of a program."""
    text = program.read_text()
    match = _CAUSE.search(text)
    assert match is not None, f"{program} does not state its straggler"
    cause, _, when = match[1].partition(", ")
    lines = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith("# guilty")]
    is_even = cause == "none"
    return {
        "program": program.name,
        "rank": None if is_even else late,
        "cause": None if is_even else cause,
        "passing": when == "passing",
        "lines": lines,
    }


def record(
    program: Path, ranks: int, late: int, steps: int, output: Path
) -> subprocess.CompletedProcess[str]:
    """Run one program under ``stepscope run``."""
    env = {**os.environ, "RANKS": str(ranks), "LATE": str(late), "STEPS": str(steps)}
    command = [sys.executable, "-m", "stepscope", "run", "--no-summary", "--force"]
    return subprocess.run(
        [*command, "-o", f"{output}.stepscope", str(program)],
        env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def said_of(folder: Path) -> list[dict[str, Any]]:
    """Return the stragglers that the findings of a run name."""
    command = [sys.executable, "-m", "stepscope", "summary", "--json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    return [load for load in json.loads(done.stdout)["findings"] if load["id"] == "straggler"]


def is_right(expected: dict[str, Any], findings: list[dict[str, Any]]) -> bool:
    """Tell whether rank, cause and how often are named; nobody, where nobody is late."""
    if expected["rank"] is None:
        return not findings
    result = findings[0]["evidence"] if findings else {}
    return (
        result.get("rank") == expected["rank"]
        and result.get("reason") == REASONS[expected["cause"]]
        and result.get("persistent") is not expected["passing"]
    )


def judged(folder: Path, expected: dict[str, Any]) -> bool:
    """Print what is said of a run, and whether it is right."""
    result = said_of(folder)
    right = is_right(expected, result)
    planted = "nobody late" if expected["rank"] is None else f"rank {expected['rank']} late"
    answer = result[0]["title"] if result else "nobody is late"
    print(f"{'right' if right else 'WRONG'}: {folder.stem}, {planted}: {answer}", flush=True)
    return right


def main() -> int:
    """Record them all, and judge them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the run folders go")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4], help="how many (default: 4)")
    parser.add_argument("--steps", type=int, default=40, help="of each program (default: 40)")
    parser.add_argument("--only", nargs="+", default=[], help="names of programs")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    result = args.folder / "expected.json"
    expected: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {}
    failed = wrong = 0
    for ranks in args.ranks:
        for number, program in enumerate(programs()):
            if args.only and program.stem not in args.only:
                continue
            late = (number + ranks // 2) % ranks
            output = args.folder / f"{program.stem}-{ranks}"
            done = record(program, ranks, late, args.steps, output)
            saved = Path(f"{output}.stepscope")
            count = len(list(saved.glob("rank-*.stepscope")))
            if done.returncode or count != ranks:
                failed += 1
                print(f"{program.name} with {ranks} ranks: {count} traces, {done.stderr[-2000:]}")
                continue
            expected[saved.name] = expectation(program, late)
            result.write_text(json.dumps(expected, indent=2) + "\n")
            wrong += not judged(saved, expected[saved.name])
    print(f"{wrong} wrong (at most {MOST_WRONG} may be), {failed} failed")
    return int(failed > 0 or wrong > MOST_WRONG)


if __name__ == "__main__":
    sys.exit(main())
