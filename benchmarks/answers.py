"""Runs the bottleneck suite under ``stepscope run``: are the answers right? ``make bench-answers``.

Each program of ``tests/bottlenecks`` is run with no option, and its first finding is held against
the problem that was planted in it. Without Stepscope it is run with the problem and with
``FIXED=1``: what a step has gained by that is held against what the finding said.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from bare_pace import Pace, measure_gain  # noqa: E402

from bottleneck_suite import ON_DEVICE, SUITE, Program, programs  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIN_RIGHT = MIN_HEALTHY = 0.95
MAX_GAIN_ERROR = 0.15
ALARMS = ("high", "medium")
TIMEOUT_S = 300


@dataclass
class Answer:
    """What one run of a program under Stepscope said."""

    result: dict[str, Any]
    right: bool = False  # the first finding is the planted one
    line_right: bool = False  # ... and names its line
    alarms: list[str] = field(default_factory=list)  # findings that matter, or seem to
    error: str = ""

    @property
    def first(self) -> dict[str, Any]:
        return next(iter(self.result.get("findings", [])), {})

    @property
    def place(self) -> str:
        first = self.first
        return f"{Path(first.get('file') or '').name}:{first.get('line')}" if first else ""


@dataclass
class Result:
    """All that was found out about one program."""

    program: Program
    answers: list[Answer] = field(default_factory=list)
    gain: Pace | None = None
    skipped: str = ""

    def gain_error(self) -> float | None:
        """Return how far the predicted gain is from the measured one, as a share of the latter."""
        rights = [item for item in self.answers if item.right]
        if self.gain is None or self.gain.gained_s <= 0 or not rights:
            return None
        predicted_s = median(predicted_gain_s(right, self.program.steps) for right in rights)
        return abs(predicted_s - self.gain.gained_s) / self.gain.gained_s

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-compatible values."""
        return {
            "program": self.program.name,
            "problems": self.program.problems,
            "skipped": self.skipped,
            "answers": [asdict(answer) for answer in self.answers],
            "gain": self.gain and asdict(self.gain),
            "gain_error": self.gain_error(),
        }


def predicted_gain_s(answer: Answer, steps: int) -> float:
    """Return what the first finding promises for one of the program's own steps.

    A server's requests, or epochs, may have been taken for the steps: then all of them together
    save what all steps of the program save.
    """
    saves_ns, result = answer.first.get("saves_ns", 0), answer.result.get("steps")
    count = result["count"] if result else 1
    if result and abs(count - steps) <= 0.2 * steps:
        return float(saves_ns) * 1e-9
    return float(saves_ns) * count / steps * 1e-9


def judge(program: Program, summary: dict[str, Any]) -> Answer:
    """Hold the findings against what was planted."""
    answer = Answer(summary)
    answer.alarms = [
        item["id"] for item in summary.get("findings", []) if item["severity"] in ALARMS
    ]
    if program.is_healthy:
        answer.right = answer.line_right = not answer.alarms
        return answer
    first = answer.first
    places = {
        (Path(place["file"] or "").name, place["line"])
        for place in (*first.get("places", ()), first)
        if place.get("file")
    }
    answer.right = first.get("id") in program.problems
    answer.line_right = answer.right and not places.isdisjoint(program.guilty)
    return answer


def ask(program: Program, python: str, keep: Path | None = None) -> Answer:
    """Run a program under Stepscope and judge its answer."""
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        trace = (keep.absolute() if keep else Path(folder)) / f"{program.name}.stepscope"
        stepscope = [python, "-m", "stepscope"]
        try:
            _run([*stepscope, "run", "--force", "-o", str(trace), str(program.path)], folder)
            result = _run([*stepscope, "summary", "--json", str(trace)], folder)
            return judge(program, json.loads(result))
        except (subprocess.SubprocessError, ValueError) as error:
            output = getattr(error, "stderr", "") or getattr(error, "stdout", "") or ""
            return Answer({}, error=f"{error} {output[-500:]}".strip())


def _run(words: Sequence[str], folder: str) -> str:
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    ).stdout


class Pythons:
    """The interpreters: one has PyTorch and all else, the other has Paddle."""

    def __init__(self, paddle: str | None) -> None:
        # Programs run in folders of their own. A link stays one: it tells Python where it belongs.
        self._paddle = paddle and str(Path(paddle).absolute())
        self._missing: dict[tuple[str, str], bool] = {}

    def of(self, program: Program) -> str | None:
        """Return the interpreter for a program."""
        return self._paddle if "paddle" in program.needs else sys.executable

    def missing(self, program: Program) -> str:
        """Say what a program needs that is not there, if anything."""
        python = self.of(program)
        if python is None:
            return "no Python with Paddle: --paddle-python"
        missing = [lack for lack in program.needs if self._lacks(python, lack)]
        return f"needs {', '.join(missing)}" if missing else ""

    def _lacks(self, python: str, package: str) -> bool:
        code = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
        if (python, package) not in self._missing:
            done = subprocess.run([python, "-c", code], check=False)
            self._missing[python, package] = done.returncode != 0
        return self._missing[python, package]


def examine(program: Program, pythons: Pythons, options: argparse.Namespace) -> Result:
    """Find out all about one program."""
    result = Result(program, skipped=pythons.missing(program))
    python = pythons.of(program)
    if result.skipped or python is None:
        return result
    for _ in range(options.runs):
        result.answers.append(ask(program, python, options.keep))
    if program.has_gain and not options.no_gain:
        result.gain = measure_gain(program, python, options.repeats)
    return result


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep cores busy meanwhile."""
    code = "while True: pass"
    processes = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


HEADINGS = ("program", "planted", "first finding", "at", "right", "line", "alarms")
GAIN_HEADINGS = ("step", "gain said", "measured", "error")


def table_of(results: Sequence[Result]) -> Table:
    """Return the table: a row a run of a program."""
    table = Table(box=None, pad_edge=False)
    for heading in (*HEADINGS, *GAIN_HEADINGS):
        table.add_column(heading, overflow="fold")
    for result in results:
        if result.skipped:
            table.add_row(result.program.name, "skipped", result.skipped)
        for answer in result.answers:
            table.add_row(*_cells(result, answer))
    return table


def _cells(result: Result, answer: Answer) -> tuple[str, ...]:
    program, gain = result.program, result.gain
    planted = program.problems[0] if program.problems else "healthy"
    if answer.error:
        return (program.name, planted, f"FAILED {answer.error[:60]}")
    cells = (program.name, planted, answer.first.get("id", "none"), answer.place)
    if program.is_healthy:
        return (*cells, "", "", ", ".join(answer.alarms))
    others = [problem for problem in answer.alarms if problem not in program.problems]
    cells = (*cells, _tick(answer.right), _tick(answer.line_right), ", ".join(others))
    if gain is None:
        return cells
    error = result.gain_error()
    text = f"{predicted_gain_s(answer, program.steps) * 1e3:.2f} ms" if answer.right else ""
    return (
        *cells,
        f"{gain.plain_s * 1e3:.2f} ms",
        text,
        f"{gain.gained_s * 1e3:.2f} ms",
        "" if error is None else f"{error:.0%}",
    )


def _tick(is_right: bool) -> str:
    return "yes" if is_right else "NO"


@dataclass(frozen=True)
class Total:
    """A figure of the whole suite, and its bar."""

    what: str
    value: float
    holds: bool
    of: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.1%} ({self.of}) {'holds' if self.holds else 'MISSED'}"


def totals(results: Sequence[Result], runs: int) -> list[Total]:
    """Return the figures that have a bar; shares those of the worst run."""
    collected = []
    for is_healthy, what, bar in (
        (False, "first finding and its line right", MIN_RIGHT),
        (True, "healthy programs without a false alarm", MIN_HEALTHY),
    ):
        judged = [
            answer
            for answer in results
            if answer.program.is_healthy == is_healthy and answer.answers
        ]
        rights = [sum(item.answers[run].line_right for item in judged) for run in range(runs)]
        if judged:
            share = min(rights) / len(judged)
            of = f"{min(rights)} of {len(judged)} in the worst of {runs} runs, bar {bar:.0%}"
            collected.append(Total(what, share, share >= bar, of))
    errors = [error for item in results if (error := item.gain_error()) is not None]
    if errors:
        of = f"{len(errors)} programs, bar {MAX_GAIN_ERROR:.0%}"
        middle = median(errors)
        collected.append(Total("median error of the gain", middle, middle <= MAX_GAIN_ERROR, of))
    return collected


def arguments() -> argparse.Namespace:
    """Read the command line."""
    ours = ROOT / ".venv-paddle/bin/python"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs alone")
    parser.add_argument("--device", action="store_true", help="the programs for a GPU")
    parser.add_argument("--no-gain", action="store_true", help="measure no gains: much faster")
    parser.add_argument("--runs", type=int, default=1, help="runs of each under Stepscope")
    parser.add_argument("--repeats", type=int, default=3, help="of each bare run, for the gain")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy processes beside")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the traces there")
    parser.add_argument("--save", type=Path, metavar="FILE", help="all results, as JSON")
    parser.add_argument(
        "--paddle-python",
        metavar="PATH",
        default=str(ours) if ours.exists() else None,
        help="a Python with Paddle and Stepscope",
    )
    return parser.parse_args()


def chosen(names: Sequence[str] | None, on_device: bool) -> list[Program]:
    """Return the programs that were asked for."""
    expected = {program.name: program for program in programs(ON_DEVICE if on_device else SUITE)}
    if unknown := set(names or ()) - expected.keys():
        raise SystemExit(f"no such program: {', '.join(sorted(unknown))}")
    return [expected[name] for name in names] if names else list(expected.values())


def main() -> int:
    """Run the suite; exit with 1 unless every bar holds."""
    options = arguments()
    pythons, results = Pythons(options.paddle_python), list[Result]()
    wanted = chosen(options.only, options.device)
    with busy_processes(options.busy), ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda program: examine(program, pythons, options), wanted):
            results.append(result)
            print(f"\r\033[K{len(results)} of {len(wanted)}", end="", file=sys.stderr, flush=True)
            if options.save:
                values = [item.to_json() for item in results]
                options.save.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    print("\r\033[K", end="", file=sys.stderr)
    Console(width=200).print(table_of(results))
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(f"{today}, {platform.machine()}, {os.cpu_count()} cores, {options.busy} busy beside")
    values = totals(results, options.runs)
    print(*values or ["nothing was judged"], sep="\n")
    return int(not values or not all(total.holds for total in values))


if __name__ == "__main__":
    sys.exit(main())
