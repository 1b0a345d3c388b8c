"""The end of a trial, as text and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepscope.remedies.remedy import COMPILED
from stepscope.remedies.rounds import RUN
from stepscope.remedies.trial import OPEN, Result, Tried, steps_to_pay
from stepscope.units import duration_text, size_text

_SLOW_START_S = 2.0
_TIMES = "\N{MULTIPLICATION SIGN}"


def as_text(result: Result, program: str, patch: Path) -> str:
    """Return what users read when the trial has ended."""
    lines = [_first_line(result, program)]
    width = max((len(_name(tried)) for tried in result.chosen), default=0)
    for number, tried in enumerate(result.chosen, 1):
        note = _cost(tried)
        ratio = f"{tried.outcome.gain.ratio:.2f} {_TIMES}"
        line = f"  {number}. {_name(tried):<{width}}  {ratio:>8}   {tried.outcome.equality}{note}"
        lines.append(line.rstrip())
    rest = [tried for tried in result.tried if tried not in result.chosen]
    for verdict in dict.fromkeys(tried.verdict for tried in rest):
        names = ", ".join(_with_interval(tried) for tried in rest if tried.verdict == verdict)
        lines.append(f"  {_heading(verdict)}: {names}")
    if result.noise is not None and result.noise.low:
        noise = result.noise
        lines.append(f"  the program beside itself: {noise.low:.2f} to {noise.high:.2f}")
    if any(tried.verdict in OPEN for tried in result.tried):
        lines.append("  a longer --budget measures what is left open")
    if result.patch:
        lines.append(f"patch: {patch}   (stepscope try --apply writes it)")
    return "\n".join(lines)


def _first_line(result: Result, program: str) -> str:
    count = f"{len(result.tried)} tried in {_clock(result.seconds)}"
    count += ", interrupted" if result.was_stopped else ""
    unit = "a run" if result.unit == RUN else "a step"
    if result.gain is None:
        pace = f"{duration_text(result.plain_s * 1e9)} {unit}; " if result.plain_s else ""
        is_open = any(tried.verdict in OPEN for tried in result.tried)
        verdict = "no gain is shown" if is_open else "no change helps"
        return f"{program}: {pace}{verdict}, {count}"
    gain = result.gain
    before, after = result.plain_s * 1e9, result.plain_s / gain.ratio * 1e9
    changes = f"{len(result.chosen)} change{'s' if len(result.chosen) > 1 else ''} of {count}"
    return (
        f"{program}: {duration_text(before)} {unit} -> {duration_text(after)}, measured "
        f"({gain.ratio:.2f} {_TIMES}, 95 %: {gain.low:.2f} to {gain.high:.2f}), "
        f"results {result.equality}, {changes}"
    )


def _heading(verdict: str) -> str:
    return "not helping" if verdict == "no gain" else verdict


def _name(tried: Tried) -> str:
    return f"{tried.change.title} ({tried.change.place})"


def _with_interval(tried: Tried) -> str:
    gain = tried.outcome.gain
    if tried.outcome.failure or not gain.low:
        return _name(tried)
    interval = f"{gain.ratio:.2f} {_TIMES}, {gain.low:.2f} to {gain.high:.2f}"
    return f"{_name(tried)} ({interval}{_cost(tried, ', ')})"


def _cost(tried: Tried, gap: str = "   ") -> str:
    outcome = tried.outcome
    notes = []
    if outcome.remembered_bytes:
        notes.append(f"needs {size_text(outcome.remembered_bytes)}")
    if tried.change.proof == COMPILED or outcome.extra_start_s > _SLOW_START_S:
        pays = steps_to_pay(outcome)
        after = f", pays after {pays:.0f} steps" if 0 < pays < 1e6 else ""
        notes.append(f"starts {outcome.extra_start_s:.1f} s later{after}")
    return gap + ", ".join(notes) if notes else ""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def as_json(result: Result, program: str) -> dict[str, Any]:
    """Return a trial as plain data."""
    return {
        "program": program,
        "unit": result.unit,
        "plain_seconds": result.plain_s,
        "gain": result.gain.to_json() if result.gain else None,
        "equality": str(result.equality) if result.equality else None,
        "noise": result.noise.to_json() if result.noise else None,
        "steps": result.steps,
        "start_seconds": result.start_s,
        "seconds": result.seconds,
        "was_stopped": result.was_stopped,
        "patch": result.patch,
        "tried": [
            {
                "title": tried.change.title,
                "place": tried.change.place,
                "is_in_patch": tried in result.chosen,
                "verdict": tried.verdict,
                "took_effect": tried.took_effect,
                "gain": tried.outcome.gain.to_json(),
                "equality": str(tried.outcome.equality),
                "start_seconds": tried.outcome.extra_start_s,
                "remembered_bytes": tried.outcome.remembered_bytes,
            }
            for tried in result.tried
        ],
    }
