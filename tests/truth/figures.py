"""Compare each figure of an answer with what the program knows of itself."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .catalog import Program
    from .recording import Recording

NEAR, NEAR_OF_ITSELF = 0.03, 0.05  # of the whole, and of the figure: whichever is larger
FAR = 0.10
OF_PYTHON_3_11 = ".<locals>.<listcomp>"  # newer ones have no frame of a comprehension's own

# The rows of `where` that are a cause's, by what they are called.
ROWS = {
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "data": "data loading",
    "python": "Python code",
    "c": "native code|C code|C function",
    "sleep": "sleep",
    "lock": "lock",
    "queue": "queue",
    "socket": "socket|network",
}
# A thread that could run counts neither as at work nor as waiting for something, in the truth.
COULD_RUN = re.compile("waiting for a core|waiting for the GIL")


@dataclass(frozen=True)
class Figure:
    """One figure: the truth, what the answer says, and how far the one is off the other."""

    program: str
    name: str
    truth: str
    answer: str
    off_by: float  # of the whole: a step, a run; infinite where the answer has no such figure
    allowed: float = NEAR

    @property
    def is_right(self) -> bool:
        return self.off_by <= self.allowed

    @property
    def is_far_off(self) -> bool:
        return self.off_by > max(FAR, 2 * self.allowed)


def compare(program: Program, recording: Recording) -> list[Figure]:
    return list(_Comparison(program.name, recording).figures())


class _Comparison:
    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self.recording = recording
        self.answer = recording.answer
        self.truth = recording.truth
        self.steps: list[dict[str, Any]] = self.truth["steps"]

    def figures(self) -> Iterator[Figure]:
        yield from self.steps_figures()
        yield from self.share_figures()
        yield from self.function_figures()
        yield from self.fact_figures()
        yield from self.sums()

    def steps_figures(self) -> Iterator[Figure]:
        steps = self.answer["steps"] or {"count": 0, "steady": 0, "unit": "none", "mean_ns": 0}
        yield self.same("count", len(self.steps), steps["count"])
        if not self.steps:
            return
        yield self.same("unit", self.steps[0]["unit"], steps["unit"])
        lengths = [step["wall_ns"] for step in self.steady_steps()]
        yield self.time("mean", sum(lengths) / len(lengths), steps["mean_ns"])

    def steady_steps(self) -> list[dict[str, Any]]:
        """The steps that the answer is about: it leaves out the first ones."""
        steps = self.answer["steps"]
        left_out = steps["count"] - steps["steady"] if steps else 0
        return self.steps[left_out:] or self.steps

    def share_figures(self) -> Iterator[Figure]:
        """Compare shares of the thread's own time: CPU time, and waiting but for core and GIL."""
        causes: dict[str, float] = defaultdict(float)
        if not self.steps:
            causes, whole_ns = self.truth["causes"], self.truth["own_ns"]
        else:
            steady = [step for step in self.steady_steps() if "causes" in step]
            whole_ns = sum(step["own_ns"] for step in steady)
            for step in steady:
                for cause, ns in step["causes"].items():
                    causes[cause] += ns
        rows = [row for row in self.answer["where"] if not COULD_RUN.search(row["what"])]
        told_ns = sum(row["ns"] for row in rows)
        for cause, ns in causes.items():
            if cause in ROWS:
                of_cause = [row["ns"] for row in rows if re.search(ROWS[cause], row["what"])]
                share = sum(of_cause) / told_ns if told_ns else 0.0
                yield self.share(f"share of {cause}", ns / whole_ns, share)

    def function_figures(self) -> Iterator[Figure]:
        truth: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for process in self.recording.processes:
            for function, sums in process["functions"].items():
                for key, ns in sums.items():
                    truth[function][key] += ns
        answer = self.sampled_functions()
        whole_ns = sum(step["wall_ns"] for step in self.steps)
        whole_ns = max(whole_ns, sum(sums["own_ns"] + sums["waited_ns"] for sums in truth.values()))
        for function, sums in truth.items():
            for key, what in (("own_ns", "own"), ("total_ns", "all"), ("waited_ns", "waits")):
                if sums[key] > 0.02 * whole_ns:
                    ns = answer[function][key]
                    yield self.time(f"{function}() {what}", sums[key], ns, whole_ns)

    def sampled_functions(self) -> dict[str, dict[str, int]]:
        """Return each function's CPU time, own and with callees, and its waiting.

        A function's own time includes that of libraries which it calls, as the program's own
        figure does.
        """
        answer: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        file = re.compile(rf"(?:^|/){re.escape(self.name.partition('.')[0])}\.py\(\d+\): (.*)")
        for sample in self.recording.samples:
            frames = map(file.search, sample["stack"].split(" < "))
            functions = [frame[1].removesuffix(OF_PYTHON_3_11) for frame in frames if frame]
            if not functions or sample["state"] in ("ready", "gil"):
                continue
            waits = sample["state"] == "blocked"
            if not waits:
                answer[functions[0]]["own_ns"] += sample["ns"]
            for function in set(functions):
                answer[function]["waited_ns" if waits else "total_ns"] += sample["ns"]
        return answer

    def fact_figures(self) -> Iterator[Figure]:
        if "startup_ns" in self.truth:
            whole_ns = self.truth["startup_ns"] + self.truth["own_ns"]
            startup_ns = self.answer["startup_ns"]
            yield self.time("start-up", self.truth["startup_ns"], startup_ns, whole_ns)
        if "headline" in self.truth:
            name = self.truth["headline"]
            verdict = self.answer["verdict"]
            yield self.same("headline", name, name if name in verdict else verdict)
        if self.truth.get("no_gain"):
            gains = [one["saves_ns"] for one in self.answer["findings"] if _is_of_waiting(one)]
            yield self.same("gain of waiting", 0, max(gains, default=0))

    def sums(self) -> Iterator[Figure]:
        """What must hold in each answer."""
        yield self.share("sum of shares", 1.0, sum(row["share"] for row in self.answer["where"]))
        findings = self.answer["findings"]
        larger = [one["id"] for one in findings if (one["saves_ns"] or 0) > one["of_ns"]]
        yield self.same("gains above the whole", [], larger)
        odd = [one["title"] for one in findings if one["id"] == "slow-step"]
        yield self.same("steps told as odd", [], odd)

    def same(self, name: str, truth: object, answer: object) -> Figure:
        off_by = 0.0 if truth == answer else float("inf")
        if isinstance(truth, int) and isinstance(answer, int) and truth:
            off_by = abs(truth - answer) / truth
        return Figure(self.name, name, str(truth), str(answer), off_by, allowed=0.0)

    def share(self, name: str, truth: float, answer: float) -> Figure:
        allowed = max(NEAR, NEAR_OF_ITSELF * truth)
        off_by = abs(truth - answer)
        return Figure(self.name, name, f"{truth:.1%}", f"{answer:.1%}", off_by, allowed)

    def time(self, name: str, truth: float, answer: float, whole: float = 0.0) -> Figure:
        """Compare two times in ns, by their difference's share of a whole: at least the truth."""
        whole = whole or truth
        allowed = max(NEAR, NEAR_OF_ITSELF * truth / whole)
        off_by = abs(truth - answer) / whole
        return Figure(self.name, name, _milliseconds(truth), _milliseconds(answer), off_by, allowed)


def _is_of_waiting(finding: dict[str, Any]) -> bool:
    return "wait" in f"{finding['id']} {finding['title']} {finding['text']}"


def _milliseconds(ns: float) -> str:
    return f"{ns / 1e6:.4g} ms"
