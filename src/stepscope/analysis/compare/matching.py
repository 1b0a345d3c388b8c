"""Which work of one side is which of the other: by structure, not by name alone.

Work that has the same module, operator and shapes is the same. Modules that have other names are
matched by what they do, in the order of their calls; work that is left over by operator and shapes,
wherever it is now (it has moved), then by names that two frameworks spell differently. Lines of
Python are matched within their function, which may have moved down its file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from stepscope.analysis.compare.model import GONE, MOVED, NEW, RENAMED, SAME
from stepscope.analysis.compare.side import Amounts, Work
from stepscope.trace.names import FRAME

_NAMESPACE = re.compile(r"^(aten|prim|torch|paddle|phi|pd_op)(::|\.)|\bautograd::engine::\w+: ")
_ENDING = re.compile(
    r"( dygraph| pybind_imperative_func|_ad_func|_infer_meta| infer_meta| compute|_)$"
)
_ALIKE = 0.5  # of the work of two modules: those that share less are different
_TELLING = ("operator", "device")
_LINE = re.compile(r"(.+):(\d+) (.*)", re.DOTALL)  # by samples


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
    """Map modules that only the first side has to their names on the second.

    Both models are walked from the top: children of the same name are the same, the others are
    matched by what runs in them, in the order of their calls.
    """
    new_names: dict[str, str] = {}
    _match_children(_tree(before), _tree(after), new_names)
    return {old: new for old, new in new_names.items() if old != new}


@dataclass(slots=True)
class _Module:
    """A module and its children in the order of their calls."""

    path: str
    children: dict[str, _Module]
    work: set[tuple[str, str]]  # operators and shapes of all that is in it


def _tree(amounts: Amounts) -> _Module:
    root = _Module("", {}, set())
    for work, _ in sorted(amounts.items(), key=lambda item: item[1].first_ns):
        at = root
        for name in work.module.split(".") if work.module else ():
            path = f"{at.path}.{name}" if at.path else name
            at = at.children.setdefault(name, _Module(path, {}, set()))
            if work.kind in _TELLING:
                at.work.add((_plain(work.name), work.shapes))
    return root


def _match_children(one: _Module, other: _Module, new_names: dict[str, str]) -> None:
    pairs = [(one.children[name], other.children[name]) for name in one.children
             if name in other.children]  # fmt: skip
    our_rest = [child for name, child in one.children.items() if name not in other.children]
    their_rest = [child for name, child in other.children.items() if name not in one.children]
    for sign in (_with_shapes, _without_shapes):
        signs = [[sign(child) for child in side] for side in (our_rest, their_rest)]
        blocks = SequenceMatcher(None, signs[0], signs[1], autojunk=False).get_matching_blocks()
        same = [(our_rest[a + i], their_rest[b + i]) for a, b, size in blocks for i in range(size)]
        pairs += same
        our_rest = [child for child in our_rest if not any(child is mine for mine, _ in same)]
        their_rest = [
            child for child in their_rest if not any(child is theirs for _, theirs in same)
        ]
    for child in our_rest:
        near = max(their_rest, key=lambda candidate: _alike(child, candidate), default=None)
        if near is not None and _alike(child, near) >= _ALIKE:
            their_rest.remove(near)
            pairs.append((child, near))
    for mine, theirs in pairs:
        new_names[mine.path] = theirs.path
        _match_children(mine, theirs, new_names)


def _with_shapes(module: _Module) -> Hashable:
    return tuple(module.children), frozenset(module.work)


def _without_shapes(module: _Module) -> Hashable:
    return frozenset(name for name, _ in module.work)


def _alike(one: _Module, other: _Module) -> float:
    """Return the share of work that two modules have in common."""
    names = [{name for name, _ in module.work} for module in (one, other)]
    either = names[0] | names[1]
    return len(names[0] & names[1]) / len(either) if either else 0.0


def _plain(name: str) -> str:
    """Return an operator's name without what a framework or version adds."""
    name = _NAMESPACE.sub("", name)
    while (shorter := _ENDING.sub("", name)) != name:
        name = shorter
    return name.lower()


class _State:
    """The matches so far, and what is still unmatched."""

    def __init__(self, before: Amounts, after: Amounts) -> None:
        self._before, self._after = before, after
        self._unmatched_before = dict(before)
        self._unmatched_after = dict(after)
        self._matches: list[Match] = []

    def pair(
        self, of_before: Callable[[Work], Hashable], of_after: Callable[[Work], Hashable], how: str
    ) -> None:
        """Match work with the same key."""
        right = {of_after(work): work for work in self._unmatched_after}
        for work in list(self._unmatched_before):
            other = right.get(of_before(work))
            if other is not None and other in self._unmatched_after:
                self._take((work,), (other,), SAME if other == work else how)

    def pair_in_order(self, key: Callable[[Work], Hashable]) -> None:
        """Match work with the same key; equal keys are matched in the order in which they run."""
        right: dict[Hashable, list[Work]] = {}
        for work in sorted(
            self._unmatched_after, key=lambda work: self._unmatched_after[work].first_ns
        ):
            if work.kind not in _UNTIED:
                right.setdefault(key(work), []).append(work)
        for work in sorted(
            self._unmatched_before, key=lambda work: self._unmatched_before[work].first_ns
        ):
            same = right.get(key(work))
            if same and work.kind not in _UNTIED:
                other = same.pop(0)
                how = MOVED if (work.name, work.shapes) == (other.name, other.shapes) else RENAMED
                self._take((work,), (other,), how)

    def merge_moved(self) -> None:
        """Join the rows of an operator that runs as often as before, but in other modules."""
        groups: dict[tuple[str, str, str], tuple[list[Work], list[Work]]] = {}
        for number, side in enumerate((self._before, self._after)):
            for work in side:
                key = work.kind, work.name, work.shapes
                groups.setdefault(key, ([], []))[number].append(work)
        for ours, theirs in groups.values():
            loose = [w for w in ours if w in self._unmatched_before] or [
                w for w in theirs if w in self._unmatched_after
            ]
            if not loose or not ours or not theirs or loose[0].kind in _UNTIED:
                continue
            counts = [sum(self._before[w].count for w in ours)]
            counts.append(sum(self._after[w].count for w in theirs))
            if counts[0] and abs(counts[0] - counts[1]) < 0.01 * counts[0]:
                taken = {*ours}
                self._matches = [match for match in self._matches if taken.isdisjoint(match.before)]
                taken = {*theirs}
                self._matches = [match for match in self._matches if taken.isdisjoint(match.after)]
                self._take(tuple(ours), tuple(theirs), MOVED)

    def pair_lines(self, renamed: Mapping[str, str]) -> None:
        """Match lines of functions that moved within their file or to another.

        Calls are matched within their file: many functions of others have their names.
        """
        for form, part in (
            (_LINE, _file_and_function),
            (_LINE, _function),
            (_LINE, _last_name),
            (FRAME, _file_and_function),
        ):
            ours = _by_function(self._unmatched_before, form, part, renamed)
            theirs = _by_function(self._unmatched_after, form, part, {})
            for function, lines in ours.items():
                others = theirs.get(function, [])
                for work, other in _shifted(
                    lines, others, self._unmatched_before, self._unmatched_after
                ):
                    self._take((work,), (other,), MOVED)

    def finished(self) -> list[Match]:
        """Return all matches; what one side has alone is gone or new."""
        gone = [Match((work,), (), GONE) for work in self._unmatched_before]
        new = [Match((), (work,), NEW) for work in self._unmatched_after]
        return [*self._matches, *gone, *new]

    def _take(self, before: tuple[Work, ...], after: tuple[Work, ...], how: str) -> None:
        for work in before:
            self._unmatched_before.pop(work, None)
        for work in after:
            self._unmatched_after.pop(work, None)
        self._matches.append(Match(before, after, how))


_UNTIED = ("python",)  # lines are matched by their functions only
_OF_LINES = ("python", "idle")  # a device idles while some function runs


def _file_and_function(file: str, function: str) -> Hashable:
    return file, function


def _function(_file: str, function: str) -> Hashable:
    return function if function != "<module>" else None


def _last_name(_file: str, function: str) -> Hashable:
    return function.rpartition(".")[2]  # its class may have another name


def _by_function(
    amounts: Amounts,
    form: re.Pattern[str],
    part: Callable[[str, str], Hashable],
    renamed: Mapping[str, str],
) -> dict[Hashable, list[tuple[int, Work]]]:
    by_function: dict[Hashable, list[tuple[int, Work]]] = {}
    for work in amounts:
        line = form.fullmatch(work.name) if work.kind in _OF_LINES else None
        key = part(line[1], line[3]) if line else None
        if line and key is not None:
            where = renamed.get(work.module, work.module)
            by_function.setdefault((work.kind, key, where), []).append((int(line[2]), work))
    return {key: sorted(lines) for key, lines in by_function.items()}


def _shifted(
    ours: list[tuple[int, Work]],
    theirs: list[tuple[int, Work]],
    our_amounts: Amounts,
    their_amounts: Amounts,
) -> list[tuple[Work, Work]]:
    """Pair lines by the shift in line numbers that matches most of their time."""
    if not ours or not theirs:
        return []
    if len(ours) == len(theirs) == 1:
        return [(ours[0][1], theirs[0][1])]
    at = dict(theirs)
    shifts = {there - here for here, _ in ours for there, _ in theirs}

    def met(shift: int) -> float:
        return sum(
            min(our_amounts[work].ns, their_amounts[at[line + shift]].ns)
            for line, work in ours
            if line + shift in at
        )

    best = max(shifts, key=lambda shift: (met(shift), -abs(shift)))
    return [(work, at[line + best]) for line, work in ours if line + best in at]
