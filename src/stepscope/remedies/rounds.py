"""One round of a trial: arms that take turns, step for step beside the plain program."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stepscope.errors import StepscopeError
from stepscope.remedies.arms import (
    TOO_SLOW,
    Arm,
    ArmFailedError,
    Program,
    RefusedError,
    Report,
    TooSlowError,
)
from stepscope.remedies.equality import Equality, Results, compare
from stepscope.remedies.intervals import NO_GAIN, Gain, gain, steady_from

PLAIN, AGAIN = "the program", "the program again"
RUN = "run"
_WINDOW_S = 0.25
_STARTING_AT_ONCE = 2
_START_SHARE = 0.7  # of a round, at most, until all arms have started
_FEWEST_WINDOWS = 6
_LOOK_FROM = 8  # windows before an arm may be dropped
_HOPELESS = 1.01
_NARROW = 0.03


class Outcome(NamedTuple):
    """What a round has shown about one arm."""

    name: str
    gain: Gain
    equality: Equality
    seconds: float  # of a step
    extra_start_s: float  # beyond the program's own, until the first step has ended
    state: Mapping[str, Any]
    remembered_bytes: int
    windows: tuple[float, ...] = ()
    failure: str = ""

    @property
    def is_too_slow(self) -> bool:
        return self.failure == TOO_SLOW


class Track:
    """What one arm has shown so far."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self.windows: list[float] = []
        self.steps: list[int] = []
        self.results = Results()
        self.facts: Mapping[str, Any] = {}
        self.failure = ""
        self.is_dropped = False
        self.is_at_end = False

    @property
    def is_running(self) -> bool:
        return not (self.failure or self.is_dropped or self.arm.is_over)

    def take(self, report: Report) -> None:
        facts = report.facts
        self.is_at_end = report.event == "end"
        self.facts = facts
        self.results.add(facts)
        if facts["times"]:
            self.windows.append(sum(facts["times"]))
            self.steps.append(len(facts["times"]))


class Round:
    """Runs arms beside the plain program until they are measured, or the time is up."""

    def __init__(
        self,
        program: Program,
        unit: str,
        arms: Mapping[str, Mapping[str, str]],
        *,
        seconds: float,
        level: float,
        steps_known: int,
        progress: Callable[[str], None],
    ) -> None:
        self._program, self._unit, self._arms = program, unit, dict(arms)
        self._deadline = time.perf_counter() + seconds
        self._seconds, self._level, self._steps_known = seconds, level, steps_known
        self._progress = progress
        self._tracks: dict[str, Track] = {}
        self.was_stopped = False
        self.all_steps = 0  # of the program, once it has ended

    def run(self) -> dict[str, Outcome]:
        """Return an outcome for shown arm, the program that ran again among them."""
        wanted = {PLAIN: {}, AGAIN: {}, **self._arms}
        try:
            if self._unit == RUN:
                self._run_whole(wanted)
            else:
                self._start(wanted)
                self._take_turns()
        except KeyboardInterrupt:  # what was measured by now is told
            self.was_stopped = True
        finally:
            for track in self._tracks.values():
                track.arm.end()
        return {name: self._outcome(name) for name in wanted if name != PLAIN}

    # ---- programs with steps

    def _start(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Bring all arms to the end of their first step, two at a time."""
        until = time.perf_counter() + _START_SHARE * self._seconds

        starting: list[str] = []
        for name, edits in wanted.items():
            self._tracks[name] = Track(Arm(self._program, name, self._unit, edits))
            starting.append(name)
            if len(starting) == _STARTING_AT_ONCE:
                self._await_start(starting.pop(0), until)
        for name in starting:
            self._await_start(name, until)

    def _await_start(self, name: str, until: float) -> None:
        track = self._tracks[name]
        try:
            track.take(track.arm.start(until))
        except ArmFailedError as error:
            track.failure = str(error)
            track.arm.end()
            if name == PLAIN:
                raise RefusedError(f"the program cannot be tried: {error}") from None
        self._progress(f"{name} has started, one of {len(self._tracks)}")

    def _take_turns(self) -> None:
        tracks = self._tracks
        steps, turn = 1, 0
        while tracks[PLAIN].is_running and time.perf_counter() < self._deadline:
            turn += 1
            order = list(tracks)
            shift = turn % len(order)
            order = order[shift:] + order[:shift]
            if turn % 2:
                order.reverse()
            for name in order:
                if tracks[name].is_running:
                    self._give_turn(tracks[name], steps, digest=turn & (turn - 1) == 0)
            if turn == 2:
                steps = self._steps_a_window()
            self._progress(f"window {turn}, {sum(t.is_running for t in tracks.values())} arms")
            if turn >= _LOOK_FROM:
                self._drop_hopeless()
                if self._is_decided():
                    break

    def _give_turn(self, track: Track, steps: int, *, digest: bool) -> None:
        until = max(self._deadline, time.perf_counter() + 1.0)
        try:
            track.take(track.arm.window(steps, until, digest=digest))
        except TooSlowError as error:
            track.failure = "" if track.windows else str(error)
            track.is_dropped = True
        except ArmFailedError as error:
            track.failure = str(error)

    def _steps_a_window(self) -> int:
        plain = self._tracks[PLAIN]
        pace = plain.windows[-1] / plain.steps[-1]
        steps = max(1, round(_WINDOW_S / pace)) if pace else 1
        if self._steps_known:
            rest = self._steps_known - sum(plain.steps) - 1
            steps = min(steps, max(1, rest // (2 * _FEWEST_WINDOWS)))
        return steps

    def _drop_hopeless(self) -> None:
        for track in self._candidates():
            measured = self._gain(track)
            if measured.high < _HOPELESS and measured.windows >= _FEWEST_WINDOWS:
                track.is_dropped = True
                track.arm.end()

    def _is_decided(self) -> bool:
        """Tell whether every arm that still runs has a narrow interval."""
        gains = [self._gain(track) for track in self._candidates()]
        return all(shown.low > 1 and shown.high / shown.low < 1 + _NARROW for shown in gains)

    def _candidates(self) -> list[Track]:
        named = (
            (name, track) for name, track in self._tracks.items() if name not in (PLAIN, AGAIN)
        )
        return [track for _, track in named if not (track.is_dropped or track.failure)]

    # ---- programs without steps

    def _run_whole(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Run the whole program in turns: a window is a run."""
        turn = 0
        while time.perf_counter() < self._deadline:
            order = list(wanted) if turn % 2 == 0 else list(wanted)[::-1]
            for name in order:
                track = self._tracks.get(name)
                is_enough = name == AGAIN and turn > 0  # it tells whether runs print the same
                if track is None or not (track.is_dropped or track.failure or is_enough):
                    self._run_once(name, wanted[name])
                if failure := self._tracks[PLAIN].failure:
                    raise RefusedError(f"the program cannot be tried: {failure}")
            turn += 1
            self._progress(f"run {turn}")
            if turn >= _FEWEST_WINDOWS:
                self._drop_hopeless()
                if self._is_decided():
                    break

    def _run_once(self, name: str, edits: Mapping[str, str]) -> None:
        arm = Arm(self._program, name, RUN, edits)
        track = self._tracks.setdefault(name, Track(arm))
        track.arm = arm
        try:
            report = arm.run_to_end(max(self._deadline, time.perf_counter() + 1))
            track.facts = report.facts
            track.windows.append(arm.started_s)
            track.steps.append(1)
            track.results.printed = arm.printed()
        except TooSlowError as error:
            track.failure = "" if track.windows else str(error)
        except ArmFailedError as error:
            track.failure = str(error)
        finally:
            arm.end()

    # ---- what it has shown

    def _gain(self, track: Track) -> Gain:
        """Compare with both runs of the plain program, from where both are steady."""
        plain, again = self._tracks[PLAIN], self._tracks[AGAIN]
        beside = plain.windows
        if track is not again and again.windows and len(again.windows) >= len(track.windows):
            beside = [(x * y) ** 0.5 for x, y in zip(plain.windows, again.windows, strict=False)]
        first = 0 if self._unit == RUN else max(1, steady_from(beside, track.windows))
        last = min(len(beside), len(track.windows))
        if (
            self._unit != RUN
            and track.steps
            and track.is_at_end
            and last > first + _FEWEST_WINDOWS + 2
        ):
            last -= 1  # the last window may be a short one
        return gain(beside[first:last], track.windows[first:last], self._level)

    def _outcome(self, name: str) -> Outcome:
        plain, again = self._tracks.get(PLAIN), self._tracks.get(AGAIN)
        track = self._tracks.get(name)
        if plain is None or again is None or track is None:
            return Outcome(
                name,
                NO_GAIN,
                compare(Results(), Results(), Results()),
                0,
                0,
                {},
                0,
                (),
                "not tried",
            )
        if plain.is_at_end and self._unit != RUN:
            self.all_steps = int(plain.facts.get("count", 0))
        remembered = track.facts.get("remembered") or {}
        half = len(track.windows) // 2
        steps = sum(track.steps[half:])
        return Outcome(
            name,
            self._gain(track),
            compare(plain.results, track.results, again.results),
            sum(track.windows[half:]) / steps if steps else 0.0,
            max(0.0, track.arm.started_s - max(plain.arm.started_s, again.arm.started_s)),
            track.facts.get("state", {}),
            int(remembered.get("bytes", 0)),
            tuple(track.windows),
            track.failure,
        )

    def plain_seconds(self) -> float:
        """Return how long a step of the plain program takes."""
        track = self._tracks.get(PLAIN)
        if track is None:
            return 0.0
        half = len(track.windows) // 2
        steps = sum(track.steps[half:])
        return sum(track.windows[half:]) / steps if steps else 0.0

    def plain_state(self) -> Mapping[str, Any]:
        track = self._tracks.get(PLAIN)
        return track.facts.get("state", {}) if track is not None else {}


def survey(program: Program, seconds: float, deadline: float) -> Mapping[str, Any]:
    """Run the program once under the survey; return what it tells."""
    arm = Arm(program, "the survey", "", {}, seconds)
    try:
        while True:
            report = arm.start(deadline)
            if report.event == "surveyed":
                return report.facts
    except ArmFailedError as error:
        raise StepscopeError(f"the program cannot be tried: {error}") from None
    finally:
        arm.end()
