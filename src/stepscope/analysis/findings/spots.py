"""The place in the program that some moments have in common: the line to look at."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.analysis.code.own_lines import Place
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import Finding, Severity
from stepscope.analysis.steps.causes import PHASES
from stepscope.analysis.steps.ledger import Ledger
from stepscope.analysis.steps.unit import WHOLE_RUN, unit_words
from stepscope.trace.model import Bool, Int64, Trace
from stepscope.units import count_text, duration_text

Paths = list[tuple[tuple[Place, ...], float, int]]  # own frames, weight, stack

MOST = 0.6  # a callee must have this share of its caller's time to be the one to name
# In a shorter time there are too few samples to say anything, and nobody waits for it.
SHORTEST_NS = 100_000_000
# What takes less of a step is in others too, where no sample saw it.
LEAST_SEEN_NS = 5_000_000
STRAY = 0.02  # share of samples that come a moment too late for what they are counted as
# The loop is in a function that takes more of the run, or that trains for more of its time and does
# more of all training: code that loads data may make a few tensors of them.
WHOLE, MIN_TRAINING, MIN_OF_TRAINING = 0.9, 0.02, 0.1


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of the program with its callers, and the moments spent there."""

    path: tuple[Place, ...]  # the outermost first; the last is the line itself
    which: Bool  # moments of the ledger
    each_ns: float  # in an average step

    @property
    def place(self) -> Place:
        return self.path[-1]

    @property
    def places(self) -> tuple[Place, ...]:
        return self.path[::-1]

    @property
    def words(self) -> str:
        """Return where it is: ``prepare (loop.py:6)``."""
        return place_words(self.place)

    @property
    def called_from(self) -> str:
        """Return ``, called from train.py:3``; empty if the spot is in the loop itself."""
        callers = [place for place in self.path[:-1] if place.function != self.place.function]
        return f", called from {line_words(callers[-1])}" if callers else ""


def line_words(place: Place) -> str:
    """Return a line: ``loop.py:6``."""
    return f"{place.file}:{place.line}"


def place_words(place: Place) -> str:
    """Return a line and its function: ``prepare (loop.py:6)``."""
    if place.function in ("<module>", ""):
        return line_words(place)
    name = place.function.replace(".<locals>", "")
    return f"{name} ({line_words(place)})"


def hot_spot(ledger: Ledger, which: Bool) -> Spot | None:
    """Return the place where most of the given moments are spent.

    From the outermost line that has most of them, the way goes into the function that has most
    of its caller's, as long as there is one. All of a function's lines count that does nothing
    else in the loop; of one that also trains, only the line does.
    """
    if ledger.total_ns < SHORTEST_NS:
        return None
    chosen = _paths(ledger, which)
    everything = _paths(ledger, ledger.stack >= 0) if chosen else []
    path: tuple[Place, ...] = ()
    whole: Paths = []
    while function := _heaviest_function(chosen, len(path)):
        if path and _weight(function) < MOST * _weight(chosen):
            break
        line = _heaviest_line(function, len(path))
        if not whole and path and not _is_loop(ledger, everything, function[0][0][: len(path) + 1]):
            whole = function
        path = line[0][0][: len(path) + 1]
        chosen = line
        if whole and _weight(line) < MOST * _weight(function):
            chosen = function
            # Several lines may call the one that is to blame.
            if _weight(_heaviest_function(function, len(path))) < MOST * _weight(function):
                break
    if not path:
        return None
    if whole and _weight(chosen) >= MOST * _weight(whole):
        chosen = whole
    mine = which & np.isin(ledger.stack, [stack for _, _, stack in chosen])
    return Spot(path, mine, ledger.each_ns(mine))


def _is_loop(ledger: Ledger, everything: Paths, path: tuple[Place, ...]) -> bool:
    """Tell whether the loop is in a function, or the function is what the loop is for."""
    around, inner = path[:-1], (path[-1].file, path[-1].function)
    inside = [
        entry
        for entry in everything
        if entry[0][: len(around)] == around
        and len(entry[0]) > len(around)
        and (entry[0][len(around)].file, entry[0][len(around)].function) == inner
    ]
    if ledger.unit == "run":
        return _weight(inside) > WHOLE * _weight(everything)
    trains = ledger.spent_on(*PHASES)
    here = trains & np.isin(ledger.stack, [stack for _, _, stack in inside])
    least_ns = max(
        MIN_TRAINING * _weight(inside), MIN_OF_TRAINING * float(ledger.weight_ns[trains].sum())
    )
    return float(ledger.weight_ns[here].sum()) > least_ns


def call_around(ledger: Ledger, spot: Spot, never: Bool) -> Bool:
    """Return the moments of the outermost call around a spot without those of ``never``.

    The call may be one of a library's: a trainer's loop around the program's own functions.
    """
    frames = ledger.stacks[heaviest_stack(ledger, spot.which)].frames
    depth = depth_without(ledger, frames, never)
    if depth > len(frames):
        return spot.which
    return ledger.where_stack(lambda stack: stack.frames[:depth] == frames[:depth])


def depth_without(ledger: Ledger, frames: tuple[Place, ...], never: Bool) -> int:
    """Return how many outer frames tell a stack from those of the moments ``never``.

    It is one more than there are where they are in the innermost.
    """
    stacks, count = np.unique(ledger.stack[never], return_counts=True)
    inside = [
        (ledger.stacks[stack].frames, number)
        for stack, number in zip(stacks.tolist(), count.tolist(), strict=True)
        if stack in ledger.stacks
    ]
    for depth in range(1, len(frames) + 1):
        inside = [entry for entry in inside if entry[0][:depth] == frames[:depth]]
        if sum(number for _, number in inside) <= STRAY * np.count_nonzero(never):
            return depth
    return len(frames) + 1


def heaviest_stack(ledger: Ledger, which: Bool) -> int:
    """Return the stack in which most of the given moments are."""
    stacks, inverse = np.unique(ledger.stack[which], return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), ledger.weight_ns[which])
    return int(stacks[weights.argmax()])


def hottest_path(facts: Facts, rows: Int64) -> tuple[Place, ...]:
    """Return the path to the own line at which the given samples stay longest."""
    samples, stacks = facts.trace.samples, facts.ledger.stacks
    sums: dict[tuple[Place, ...], float] = {}
    for row in rows.tolist():
        own = stacks[int(samples.stack[row])].own
        if own:
            sums[own] = sums.get(own, 0.0) + float(samples.duration_ns[row])
    return max(sums, key=lambda path: sums[path], default=())


def _paths(ledger: Ledger, which: Bool) -> Paths:
    rows = np.flatnonzero(which & (ledger.stack >= 0))
    stacks, inverse = np.unique(ledger.stack[rows], return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), ledger.weight_ns[rows], minlength=len(stacks))
    paths = []
    for stack, weight in zip(stacks.tolist(), weights.tolist(), strict=True):
        sampled_stack = ledger.stacks[stack]
        own = sampled_stack.own or sampled_stack.beyond
        if own:
            paths.append((own, weight, stack))
    return paths


def _heaviest_function(paths: Paths, depth: int) -> Paths:
    deeper = [entry for entry in paths if len(entry[0]) > depth]
    return _heaviest(deeper, [(entry[0][depth].file, entry[0][depth].function) for entry in deeper])


def _heaviest_line(paths: Paths, depth: int) -> Paths:
    return _heaviest(paths, [entry[0][depth] for entry in paths])


def _heaviest(paths: Paths, keys: Sequence[Hashable]) -> Paths:
    """Return the paths whose key has the most weight."""
    sums: dict[Hashable, float] = {}
    for key, (_, weight, _) in zip(keys, paths, strict=True):
        sums[key] = sums.get(key, 0.0) + weight
    best = max(sums, key=lambda candidate: sums[candidate], default=None)
    return [path for key, path in zip(keys, paths, strict=True) if key == best]


def _weight(paths: Paths) -> float:
    return sum(weight for _, weight, _ in paths)


def finding_at(
    facts: Facts,
    spot: Spot,
    identity: str,
    *,
    title: str,
    text: str,
    fix: str,
    saves_ns: float | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Finding:
    """Return a finding about a spot, with the time that a fix would save."""
    ledger = facts.ledger
    saves_ns = spot.each_ns if saves_ns is None else saves_ns
    share = saves_ns / ledger.unit_ns if ledger.unit_ns else 0.0
    return Finding(
        id=identity,
        title=title,
        text=f"{text}{saving(saves_ns, ledger.unit, ledger.whole_ns)}",
        share=share,
        evidence=evidence or source_line(spot.place),
        fix=fix,
        severity=Severity.of_share(share),
        saves_ns=saves_ns,
        of_ns=ledger.whole_ns,
        unit=ledger.unit,
        places=spot.places,
    )


def saving(saves_ns: float, unit: str, of_ns: float) -> str:
    """Say what would be won: `` Would save 81 ms of 89 ms a step.``; empty if it is not known."""
    if saves_ns <= 0:
        return ""
    per_unit = "in all" if unit == "run" else f"a {unit}"
    saved = duration_text(min(saves_ns, of_ns))
    return f" Would save {saved} of {duration_text(of_ns)} {per_unit}."


def is_occasional(ledger: Ledger, which: Bool) -> bool:
    """Tell whether only some steps have such moments, long enough to be seen in each."""
    steps = len(np.unique(ledger.step[which]))
    if ledger.unit == WHOLE_RUN or not steps or ledger.in_most_steps(which):
        return False
    return ledger.each_ns(which) * ledger.count >= LEAST_SEEN_NS * steps


def spent_words(ledger: Ledger, which: Bool) -> str:
    """Return a time and in which steps: ``16 ms of every step``, ``In 4 of 40 steps, 160 ms``."""
    each_ns = ledger.each_ns(which)
    if is_occasional(ledger, which):
        steps = len(np.unique(ledger.step[which]))
        spent = duration_text(each_ns * ledger.count / steps)
        return f"In {steps:,} of {count_text(ledger.count, ledger.unit)}, {spent}"
    return duration_text(each_ns) + ("" if ledger.unit == WHOLE_RUN else f" of every {ledger.unit}")


def tenths(trace: Trace, ledger: Ledger, which: Bool) -> int:
    """Return in how many tenths of a run the given moments lie."""
    time_ns = trace.samples.time_ns[ledger.row[ledger.row != NO_SAMPLE]]
    mine = trace.samples.time_ns[ledger.row[which & (ledger.row != NO_SAMPLE)]]
    if not len(mine):
        return 0
    begin, end = int(time_ns.min()), int(time_ns.max()) + 1
    return len(np.unique((mine - begin) * 10 // (end - begin)))


def share_words(share: float, unit: str) -> str:
    """Return a share and of what: ``67% of a step``, ``67% of the run``."""
    return f"{share:.0%} of {unit_words(unit)}"


def taken(ledger: Ledger, spot: Spot) -> str:
    """Describe a spot's share and place: ``67% of a step: prepare (loop.py:6)``."""
    share = spot.each_ns / ledger.unit_ns if ledger.unit_ns else 0.0
    if is_occasional(ledger, spot.which):
        return f"{share:.0%} of all {ledger.unit}s, in some of them: {spot.words}"
    return f"{share_words(share, ledger.unit)}: {spot.words}"


def source_line(place: Place) -> dict[str, Any]:
    """Return evidence that shows a line on the Source page."""
    return {"page": "source", "file": place.file, "line": place.line}
