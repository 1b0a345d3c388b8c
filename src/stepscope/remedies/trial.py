"""A trial of a program: survey, each change beside the program, the winners together, the patch."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import stepscope.remedies.catalog  # noqa: F401 - registers the remedies
from stepscope.errors import StepscopeError
from stepscope.remedies.arms import Program
from stepscope.remedies.edits import NoPlaceError, Sources
from stepscope.remedies.equality import Equality, Kind
from stepscope.remedies.intervals import Gain, gain
from stepscope.remedies.remedy import COMPILED, THREADS, Change, Facts, all_changes
from stepscope.remedies.rounds import AGAIN, RUN, Outcome, Round, survey

UNMEASURED, UNCONFIRMED = "not measured in time", "not confirmed in time"
OPEN = {UNMEASURED, UNCONFIRMED}
_SURVEY_SHARE, _SCREEN_SHARE = 0.08, 0.45
_LONGEST_SURVEY_S = 15.0
_LEVEL = 0.95
_SCREEN_LEVEL = 0.9  # no claim is made from the screening: what helps is measured again
_WORTH_COMPILING = 0.5  # of the budget must be left
_LEAST_GAIN = 1.02
_BUSY_LOAD = 2.0  # a core
_FEWEST_STEPS = 12
_MOST_CHANGES = 10
_MOST_TOGETHER = 4
_START_SHARE = 0.3  # of the budget, for the starts of the arms that are screened


class Tried(NamedTuple):
    """A change, and what the trial has shown about it."""

    change: Change
    outcome: Outcome
    took_effect: bool
    verdict: str  # "helps", or why the change is not in the patch


class Result(NamedTuple):
    """What a trial has shown by the time it ended."""

    unit: str
    plain_s: float  # of a step of the program
    tried: Sequence[Tried]
    chosen: Sequence[Tried]
    gain: Gain | None  # of the patched program
    equality: Equality | None
    noise: Gain | None  # of the program beside itself
    patch: str
    texts: Mapping[str, str]
    steps: int  # of the whole program, 0 if it was not seen to its end
    start_s: float  # what the patched program needs more until its first step has ended
    seconds: float
    was_stopped: bool = False


class Trial:
    """Tries what may make a program faster, within a budget of time."""

    def __init__(self, program: Program, budget_s: float, progress: Callable[[str], None]) -> None:
        self._program, self._budget_s, self._progress = program, budget_s, progress
        self._began = time.perf_counter()
        self._sources = Sources()
        self._tried: list[Tried] = []
        self._chosen: list[Tried] = []
        self._final: Outcome | None = None
        self._noise: Gain | None = None
        self._plain_s = 0.0
        self._steps = 0
        self._unit = RUN

    def run(self) -> Result:
        """Return what is known at the end, or when the user has had enough."""
        was_stopped = False
        try:
            self._run()
        except KeyboardInterrupt:
            was_stopped = True
        return self._result(was_stopped=was_stopped)

    def _left_s(self) -> float:
        return max(1.0, self._budget_s - (time.perf_counter() - self._began))

    def _run(self) -> None:
        self._progress("survey of the program")
        seconds = min(_LONGEST_SURVEY_S, _SURVEY_SHARE * self._budget_s)
        facts = survey(self._program, seconds, self._began + 0.4 * self._budget_s)
        start_s = max(1.0, time.perf_counter() - self._began - facts["seconds"])
        most = max(1, min(_MOST_CHANGES, int(_START_SHARE * self._budget_s / start_s)))
        self._unit, self._steps = unit_of(facts)
        program_facts = Facts(facts, self._sources, self._unit)
        changes = all_changes(program_facts)[:most]
        if not changes:
            return
        quick = [change for change in changes if change.proof != COMPILED]
        slow = [change for change in changes if change.proof == COMPILED]
        for some in filter(None, (quick, slow)):
            if some is quick or self._left_s() > _WORTH_COMPILING * self._budget_s:
                self._screen(some)
        self._screen_again()
        helping = sorted(
            (tried for tried in self._tried if tried.verdict == "helps"),
            key=lambda tried: -tried.outcome.gain.ratio,
        )
        if helping:
            self._measure_patches(helping[:_MOST_TOGETHER])

    def _round(self, arms: Mapping[str, Mapping[str, str]], share: float, level: float) -> Round:
        return Round(
            self._program,
            self._unit,
            arms,
            seconds=min(self._left_s(), share * self._budget_s),
            level=level,
            steps_known=self._steps,
            progress=self._progress,
        )

    # ---- each change on its own

    def _screen(self, changes: Sequence[Change]) -> None:
        arms = {str(n): self._sources.edited(change.edits) for n, change in enumerate(changes)}
        round_ = self._round(arms, _SCREEN_SHARE, _SCREEN_LEVEL)
        outcomes = round_.run()
        self._plain_s = round_.plain_seconds() or self._plain_s
        self._steps = self._steps or round_.all_steps
        for number, change in enumerate(changes):
            outcome = outcomes[str(number)]
            state = outcome.state.get(change.proof)
            took_effect = bool(outcome.state) and state != round_.plain_state().get(change.proof)
            verdict = self._verdict(outcome, took_effect=took_effect)
            if verdict == "helps" and change.proof == THREADS and _is_machine_busy():
                verdict = "not judged while other programs use the cores"
            self._tried.append(Tried(change, outcome, took_effect, verdict))
        if round_.was_stopped:
            raise KeyboardInterrupt

    def _screen_again(self) -> None:
        """If nothing has helped yet, use the rest of the time for the first change not measured."""
        is_any_helping = any(tried.verdict == "helps" for tried in self._tried)
        unmeasured = [tried for tried in self._tried if tried.verdict == UNMEASURED]
        if unmeasured and not is_any_helping and self._left_s() > _SCREEN_SHARE * self._budget_s:
            self._tried.remove(unmeasured[0])
            self._screen([unmeasured[0].change])

    def _verdict(self, outcome: Outcome, *, took_effect: bool) -> str:
        if outcome.failure:
            return UNMEASURED if outcome.is_too_slow else outcome.failure
        if not took_effect:
            return "without effect"
        if not outcome.gain.low:
            return UNMEASURED
        if outcome.gain.low <= 1.0 or outcome.gain.ratio < _LEAST_GAIN:
            return "no gain"
        if outcome.equality.kind is Kind.DIFFERS:
            return "changes the results"
        if outcome.equality.kind is Kind.UNKNOWN:
            return "its results could not be compared"
        pays = steps_to_pay(outcome)
        if self._unit != RUN and self._steps and pays > self._steps:
            return f"pays only after {pays:.0f} steps of {self._steps}"
        return "helps"

    # ---- the patch

    def _measure_patches(self, helping: Sequence[Tried]) -> None:
        """Run the program as ``git apply`` has patched it: with the best change, with two, ...

        This is a round of its own, so that no claim rests on the windows that chose the changes.
        """
        patches: dict[str, Sequence[Tried]] = {}
        texts = {}
        for count in range(1, len(helping) + 1):
            name = f"patch of {count}"
            with contextlib.suppress(NoPlaceError):
                wanted = self._texts(helping[:count])
                texts[name] = patched_by_git(self._sources, wanted, self._program.folder)
                patches[name] = helping[:count]
        round_ = self._round(texts, 1.0, 1 - (1 - _LEVEL) / len(patches))
        outcomes = round_.run()
        self._plain_s = round_.plain_seconds() or self._plain_s
        self._steps = self._steps or round_.all_steps
        self._noise = outcomes[AGAIN].gain
        for name, changes in patches.items():
            outcome = outcomes[name]
            is_shown = outcome.gain.low > 1.0 and outcome.gain.ratio >= _LEAST_GAIN
            if outcome.failure or not is_shown or outcome.equality.kind >= Kind.DIFFERS:
                continue
            if self._final is None or self._is_faster(outcome, self._final):
                self._final, self._chosen = outcome, list(changes)
        if round_.was_stopped:
            raise KeyboardInterrupt

    @staticmethod
    def _is_faster(outcome: Outcome, other: Outcome) -> bool:
        """Tell whether one patch is faster than another that took turns with it."""
        start = len(outcome.windows) // 4  # both are steady by then
        return gain(other.windows[start:], outcome.windows[start:], _SCREEN_LEVEL).low > 1.0

    def _texts(self, tried: Sequence[Tried]) -> dict[str, str]:
        return self._sources.edited(edit for one in tried for edit in one.change.edits)

    def _result(self, *, was_stopped: bool) -> Result:
        for place, tried in enumerate(self._tried):
            if tried.verdict == "helps" and tried not in self._chosen:
                verdict = "adds nothing to the patch" if self._chosen else UNCONFIRMED
                self._tried[place] = tried._replace(verdict=verdict)
        final, texts = self._final, self._texts(self._chosen)
        return Result(
            unit=self._unit,
            plain_s=self._plain_s,
            tried=self._tried,
            chosen=self._chosen,
            gain=final.gain if final else None,
            equality=final.equality if final else None,
            noise=self._noise,
            patch=self._sources.diff(texts, patch_root(texts, self._program.folder)),
            texts=texts,
            steps=self._steps,
            start_s=final.extra_start_s if final else 0.0,
            seconds=time.perf_counter() - self._began,
            was_stopped=was_stopped,
        )


def _is_machine_busy() -> bool:
    """Tell whether others want the cores: only one arm runs at a time, on as many as there are."""
    return os.getloadavg()[0] > _BUSY_LOAD * (os.cpu_count() or 1)


def unit_of(facts: Mapping[str, Any]) -> tuple[str, int]:
    """Return what ends each step, and the number of steps; 0 if the program did not end."""
    for kind in ("optimizer:", "module:"):
        counts = {
            name: len(times)
            for name, times in facts["steps"].items()
            if name.startswith(kind) and len(times) >= 2
        }
        if counts:
            first = (
                "optimizer:0" if "optimizer:0" in counts else max(counts, key=counts.__getitem__)
            )
            is_whole = facts["is_whole"]
            if not is_whole or counts[first] >= _FEWEST_STEPS:
                return first, counts[first] if is_whole else 0
    return RUN, 0


def steps_to_pay(outcome: Outcome) -> float:
    """Return after how many steps a slower start is made up for."""
    saved = outcome.seconds * (outcome.gain.ratio - 1)
    return outcome.extra_start_s / saved if saved > 0 else math.inf


def patch_root(texts: Mapping[str, str], folder: Path) -> Path:
    """Return the folder that a patch is relative to: the current one, if all files are in it."""
    here = Path.cwd()
    for root in (here, folder):
        if all(Path(path).is_relative_to(root) for path in texts):
            return root
    return Path("/")


def patched_by_git(sources: Sources, texts: dict[str, str], folder: Path) -> dict[str, str]:
    """Return the files as ``git apply`` makes them from copies of the originals and the patch."""
    root = patch_root(texts, folder)
    with tempfile.TemporaryDirectory(prefix="stepscope-try-") as home:
        copies = {path: Path(home) / Path(path).relative_to(root) for path in texts}
        for path, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(sources[path].text.encode())
        patch = sources.diff(texts, root).encode()
        command = ["git", "apply", "-"]
        try:
            done = subprocess.run(command, input=patch, cwd=home, capture_output=True, check=False)
        except FileNotFoundError:
            return texts  # without git, the same texts
        if done.returncode:
            raise StepscopeError(f"the patch does not apply: {done.stderr.decode().strip()}")
        return {path: copy.read_bytes().decode() for path, copy in copies.items()}
