"""Plant 50 slow steps among 10,000, and see that ``--on-slow-step 2x`` captures each of them whole.

    make stress-slow_steps

The program times its steps itself: one that a busy machine made slow is rightly called so. Exits
with 1 where a planted step is not whole in a capture that names it, or where more than 1 % of the
steps are called slow that were not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS, SLOW, TIMES = 10_000, 50, 4
MOST_OTHERS = 0.01
MARK = "ProfilerStep#"

PROGRAM = """
import json, random, sys, time
from stepscope import record_function
steps, slow, times, out = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
random.seed(7)
planted = sorted(random.sample(range(200, steps - 10), slow))
chosen, took = set(planted), []

def work(amount):  # not by computing: the pace of a shared processor halves and doubles
    time.sleep(amount * 0.003)

for step in range(steps):
    began = time.perf_counter()
    with record_function(f"ProfilerStep#{step}"):
        with record_function("work"):
            work(times if step in chosen else 1)
    took.append(time.perf_counter() - began)
json.dump({"planted": planted, "took": took}, open(out, "w"))
"""


def main() -> int:
    """Run, read every capture, and compare."""
    from stepscope.formats import read_trace

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        result, trace = folder / "told.json", folder / "run.stepscope"
        options = ["--last", "60s", "--on-slow-step", "2x", "--no-report", "-q", "-o", str(trace)]
        numbers = [str(item) for item in (STEPS, SLOW, TIMES)]
        words = [sys.executable, "-m", "stepscope", "run", *options, str(folder / "program.py")]
        done = subprocess.run([*words, *numbers, str(result)], cwd=folder, check=False)
        expected = json.loads(result.read_text(encoding="utf-8"))
        captures = [path for path in folder.glob("*.stepscope") if path != trace]
        whole, called = set[int](), set[int]()
        for path in captures:
            read = read_trace(str(path))
            told_of = read.info.user.get("capture", {}).get("slow_steps", [])
            called |= {int(item["step"]) for item in told_of}
            texts = map(read.name_of, range(len(read)))
            whole |= {int(text[len(MARK) :]) for text in texts if text.startswith(MARK)}
    planted, usual = set(expected["planted"]), sorted(expected["took"])[STEPS // 2]
    caught = planted & whole & called
    really = {i for i, item in enumerate(expected["took"]) if item > 2 * usual}
    others = called - planted - really
    print(f"exit code {done.returncode}, {len(captures)} captures")
    print(f"{len(caught)} of {len(planted)} slow steps are whole in a capture that names them")
    for step in sorted(planted - caught):
        ratio = expected["took"][step] / usual
        print(f"  step {step} took {ratio:.1f} x the median: {_missing(step, whole, called)}")
    print(f"besides, {len(called - planted)} steps were called slow, {len(others)} that were not")
    holds = caught == planted and len(others) <= MOST_OTHERS * STEPS and done.returncode == 0
    print("holds" if holds else "MISSED")
    return int(not holds)


def _missing(step: int, whole: set[int], called: set[int]) -> str:
    return "not called slow" if step not in called else f"{'' if step in whole else 'not '}whole"


if __name__ == "__main__":
    sys.exit(main())
