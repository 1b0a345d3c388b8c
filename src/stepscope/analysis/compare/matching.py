"""Which work of one side is which of the other: by structure, not by name alone.

Work that has the same module, operator and shapes is the same. Modules that have other names are
matched by what they do, in the order of their calls; work that is left over by operator and shapes,
wherever it is now (it has moved), then by names that two frameworks spell differently. Lines of
Python are matched within their function, which may have moved down its file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from stepscope.analysis.compare.model import GONE, MOVED, NEW, RENAMED, SAME

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from stepscope.analysis.compare.side import Amount, Amounts, Work

_NAMESPACE = re.compile(r"^(aten|prim|torch|paddle|phi|pd_op)(::|\.)|\bautograd::engine::\w+: ")
_ENDING = re.compile(
    r"( dygraph| pybind_imperative_func|_ad_func|_infer_meta| infer_meta| compute|_)$"
)
_LINE = re.compile(r"(.+):(\d+) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Match:
    """Some work of each side that is one row; either side may be empty."""

    before: tuple[Work, ...]
    after: tuple[Work, ...]
    status: str


def matched(before: Amounts, after: Amounts) -> list[Match]:
    """Return all work of both sides, each in one match."""
    renamed = renamed_modules(before, after)
    state = _State(before, after)
    state.pair(lambda work: work, lambda work: work, SAME)
    state.pair(
        lambda work: work._replace(module=renamed.get(work.module, work.module)),
        lambda work: work,
        RENAMED,
    )
    state.pair_lines(renamed)
    state.merge_moved()
    for same in (
        lambda work: (work.kind, work.name, work.shapes),
        lambda work: (work.kind, renamed.get(work.module, work.module), _plain(work.name)),
        lambda work: (work.kind, _plain(work.name), work.shapes),
    ):
        state.pair_in_order(same)
    return state.finished()


def renamed_modules(before: Amounts, after: Amounts) -> dict[str, str]:
    """Return what modules that one side does not know are called on the other."""
    ours, theirs = _modules(before), _modules(after)
    left = [module for module in ours if module not in theirs]
    right = [module for module in theirs if module not in ours]
    found: dict[str, str] = {}
    for sign in (_signature, _rough_signature):
        one = [sign(ours[module]) for module in left]
        other = [sign(theirs[module]) for module in right]
        blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
        for start, at, size in blocks:
            found.update(zip(left[start : start + size], right[at : at + size], strict=True))
        taken = set(found.values())
        left = [module for module in left if module not in found]
        right = [module for module in right if module not in taken]
    for module in left:
        tail = module.rpartition(".")[2]
        same = [other for other in right if other.rpartition(".")[2] == tail]
        if len(same) == 1:
            found[module] = same[0]
            right.remove(same[0])
    return found


def _modules(amounts: Amounts) -> dict[str, list[tuple[Work, Amount]]]:
    """Return the work of each module, modules in the order in which they first do any."""
    found: dict[str, list[tuple[Work, Amount]]] = {}
    for work, amount in sorted(amounts.items(), key=lambda item: item[1].first_ns):
        if work.module:
            found.setdefault(work.module, []).append((work, amount))
    return found


def _signature(held: list[tuple[Work, Amount]]) -> Hashable:
    calls = [(w.name, w.shapes, round(a.count, 2)) for w, a in held if a.count]
    return tuple(sorted(calls))


def _rough_signature(held: list[tuple[Work, Amount]]) -> Hashable:
    return tuple(sorted({_plain(work.name) for work, amount in held if amount.count}))


def _plain(name: str) -> str:
    """Return an operator's name without what only one framework, or version, writes."""
    name = _NAMESPACE.sub("", name)
    while (shorter := _ENDING.sub("", name)) != name:
        name = shorter
    return name.lower()


class _State:
    """What is matched already, and what is left."""

    def __init__(self, before: Amounts, after: Amounts) -> None:
        self._before, self._after = before, after
        self._left = dict(before)
        self._right = dict(after)
        self._found: list[Match] = []

    def pair(
        self, of_before: Callable[[Work], Hashable], of_after: Callable[[Work], Hashable], how: str
    ) -> None:
        """Match what has the same key."""
        right = {of_after(work): work for work in self._right}
        for work in list(self._left):
            other = right.get(of_before(work))
            if other is not None and other in self._right:
                self._take((work,), (other,), SAME if other == work else how)

    def pair_in_order(self, key: Callable[[Work], Hashable]) -> None:
        """Match what has the same key; where several have, in the order in which they run."""
        right: dict[Hashable, list[Work]] = {}
        for work in sorted(self._right, key=lambda work: self._right[work].first_ns):
            if work.kind not in _UNTIED:
                right.setdefault(key(work), []).append(work)
        for work in sorted(self._left, key=lambda work: self._left[work].first_ns):
            same = right.get(key(work))
            if same and work.kind not in _UNTIED:
                other = same.pop(0)
                how = MOVED if (work.name, work.shapes) == (other.name, other.shapes) else RENAMED
                self._take((work,), (other,), how)

    def merge_moved(self) -> None:
        """Make one row of an operator that runs as often as before, in other modules."""
        groups: dict[tuple[str, str, str], tuple[list[Work], list[Work]]] = {}
        for number, side in enumerate((self._before, self._after)):
            for work in side:
                key = work.kind, work.name, work.shapes
                groups.setdefault(key, ([], []))[number].append(work)
        for ours, theirs in groups.values():
            loose = [w for w in ours if w in self._left] or [w for w in theirs if w in self._right]
            if not loose or not ours or not theirs or loose[0].kind in _UNTIED:
                continue
            counts = [sum(self._before[w].count for w in ours)]
            counts.append(sum(self._after[w].count for w in theirs))
            if counts[0] and abs(counts[0] - counts[1]) < 0.01 * counts[0]:
                taken = {*ours}
                self._found = [each for each in self._found if taken.isdisjoint(each.before)]
                taken = {*theirs}
                self._found = [each for each in self._found if taken.isdisjoint(each.after)]
                self._take(tuple(ours), tuple(theirs), MOVED)

    def pair_lines(self, renamed: Mapping[str, str]) -> None:
        """Match lines of functions that moved down or up their files, or into another file."""
        for part in (_file_and_function, _function):
            ours, theirs = _by_function(self._left, part), _by_function(self._right, part)
            for function, lines in ours.items():
                others = theirs.get(function, [])
                for work, other in _shifted(lines, others, self._left, self._right):
                    self._take((work,), (other,), MOVED)

    def finished(self) -> list[Match]:
        """Return all matches; what is left on one side only is gone or new."""
        gone = [Match((work,), (), GONE) for work in self._left]
        new = [Match((), (work,), NEW) for work in self._right]
        return [*self._found, *gone, *new]

    def _take(self, before: tuple[Work, ...], after: tuple[Work, ...], how: str) -> None:
        for work in before:
            self._left.pop(work, None)
        for work in after:
            self._right.pop(work, None)
        self._found.append(Match(before, after, how))


_UNTIED = ("python",)  # lines are matched by their functions only


def _file_and_function(file: str, function: str) -> Hashable:
    return file, function


def _function(_file: str, function: str) -> Hashable:
    return function if function != "<module>" else None


def _by_function(
    amounts: Amounts, part: Callable[[str, str], Hashable]
) -> dict[Hashable, list[tuple[int, Work]]]:
    found: dict[Hashable, list[tuple[int, Work]]] = {}
    for work in amounts:
        line = _LINE.fullmatch(work.name) if work.kind == "python" else None
        key = part(line[1], line[3]) if line else None
        if line and key is not None:
            found.setdefault((key, work.module), []).append((int(line[2]), work))
    return {key: sorted(lines) for key, lines in found.items()}


def _shifted(
    ours: list[tuple[int, Work]], theirs: list[tuple[int, Work]], left: Amounts, right: Amounts
) -> list[tuple[Work, Work]]:
    """Pair lines by the shift that makes the most of their time meet."""
    if not ours or not theirs:
        return []
    if len(ours) == len(theirs) == 1:
        return [(ours[0][1], theirs[0][1])]
    at = dict(theirs)
    shifts = {there - here for here, _ in ours for there, _ in theirs}

    def met(shift: int) -> float:
        return sum(
            min(left[work].ns, right[at[line + shift]].ns)
            for line, work in ours
            if line + shift in at
        )

    best = max(shifts, key=lambda shift: (met(shift), -abs(shift)))
    return [(work, at[line + best]) for line, work in ours if line + best in at]
