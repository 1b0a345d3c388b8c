"""Module calls sorted into the rows of a table, and sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.host.module_calls import ModuleCalls
from stepscope.analysis.sums import summed, with_children
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import OWN_PARAMETERS, PARAMETERS
from stepscope.trace.model import Bool, Int64
from stepscope.trace.names import MODULE_PREFIX

_Path = tuple[str, ...]  # of names below the model; empty for the model itself
_Place = tuple[str, _Path]  # a model's class, and where in it


@dataclass(frozen=True, slots=True)
class Sums:
    """A value for each group, and a last one for what belongs to no module."""

    own: Int64  # without the modules that were called in it
    total: Int64  # with them


@dataclass(frozen=True, slots=True)
class ModuleGroups:
    """The rows of a table of modules, in the order of their first calls."""

    module_calls: ModuleCalls
    places: Sequence[_Place]
    of_call: Int64  # the group of each call
    is_itself: Bool  # whether a call is of the group's module, not of one folded into it
    is_outer: Bool  # whether no call around a call is in the same group

    @staticmethod
    def of(calls: ModuleCalls, depth: int | None) -> ModuleGroups:
        """Give each module a group; those below ``depth`` share that of their ancestor there."""
        places, place_of_call = (_frame_places if calls.are_frames else _named_places)(calls)
        group_of: dict[_Place, int] = {}
        groups = [
            group_of.setdefault((model, path[:depth]), len(group_of)) for model, path in places
        ]
        itself = [depth is None or len(path) <= depth for _, path in places]
        of_call = np.array(groups, np.int64)[place_of_call]
        return ModuleGroups(
            calls,
            tuple(group_of),
            of_call,
            np.array(itself, np.bool_)[place_of_call],
            _is_outer(of_call, calls.parent),
        )

    def __len__(self) -> int:
        return len(self.places)

    @property
    def model(self) -> list[str]:
        return [model for model, _ in self.places]

    @property
    def name(self) -> list[str]:
        """Return the qualified name of each group's module; a model's is its class."""
        return [".".join(path) or model for model, path in self.places]

    @property
    def class_name(self) -> list[str]:
        """Return the class of each group's module, as of its latest call."""
        return ["" if call < 0 else self._class_of(call) for call in self._latest()]

    @property
    def depth(self) -> Int64:
        """Return how far below its model each group is; 0 for what belongs to no module."""
        return np.array([*(len(path) for _, path in self.places), 0], np.int64)

    @property
    def calls(self) -> Int64:
        """Return how often each module was called; one that never was: how often any in it."""
        itself = self._count(self.is_itself)
        return np.where(itself > 0, itself, self._count(self.is_outer))

    @property
    def parameters(self) -> Int64:
        """Return the parameters in each module, counted in all that is below it."""
        of_call = self._argument(PARAMETERS)
        latest = self._latest()
        known = np.append(of_call, 0)[latest]
        for group in np.flatnonzero(latest < 0):
            # Never called itself: what the modules right in it hold.
            inner = np.flatnonzero((self.of_call == group) & self.is_outer)
            names = self.module_calls.trace.slices.name[self.module_calls.rows[inner]]
            _, first = np.unique(names, return_index=True)
            known[group] = of_call[inner[first]].sum()
        return np.append(known, 0)

    @property
    def own_parameters(self) -> Int64:
        """Return the parameters that each module holds itself."""
        known = np.append(self._argument(OWN_PARAMETERS), 0)[self._latest()]
        return np.append(known, 0)

    def sums(self, of_slice: Int64) -> Sums:
        """Sum a column of the slices, each value for the module that the slice belongs to."""
        calls = self.module_calls
        of_call = summed(calls.owner, of_slice, len(calls))
        without = of_slice.sum(keepdims=True) - of_call.sum()  # of no module: the last
        group = np.append(self.of_call, len(self))
        own = summed(group, np.append(of_call, without), len(self) + 1)
        within = np.append(with_children(calls.parent.astype(np.int32), of_call), without)
        outer = np.append(self.is_outer, True)
        return Sums(own, summed(group[outer], within[outer], len(self) + 1))

    def _count(self, calls: Bool) -> Int64:
        return np.bincount(self.of_call[calls], minlength=len(self) + 1).astype(np.int64)

    def _latest(self) -> Int64:
        """Return the latest call of each group's own module, -1 if there was none."""
        latest = np.full(len(self), -1, np.int64)
        itself = np.flatnonzero(self.is_itself)
        latest[self.of_call[itself]] = itself
        return latest

    def _argument(self, key: str) -> Int64:
        calls = self.module_calls
        slices = calls.trace.slices
        return slices.args.dense(key, len(slices), 0)[calls.rows]

    def _class_of(self, call: int) -> str:
        trace, row = self.module_calls.trace, int(self.module_calls.rows[call])
        if self.module_calls.are_frames:
            return _frame_name(trace.name_of(row)).rpartition("_")[0]
        rest = trace.slices.args.rest
        pairs = pairs_of(trace.strings[int(rest[row])]) if len(rest) else {}
        # A JSON escape may hold half a character, which no table can.
        return str(pairs.get("Class", "")).encode("utf-8", "replace").decode()


def _named_places(calls: ModuleCalls) -> tuple[list[_Place], Int64]:
    """Return the distinct places in the order of first calls, and the place of each call."""
    strings = calls.trace.strings
    name = calls.trace.slices.name[calls.rows].astype(np.int64)
    model = name[_outermost(calls.parent)]
    key = model * (len(strings) + 1) + np.where(calls.parent < 0, 0, name + 1)
    distinct, first, which = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    places: list[_Place] = []
    for of_model, of_name in zip(*np.divmod(distinct[order], len(strings) + 1), strict=True):
        path = tuple(strings[int(of_name) - 1].split(".")) if of_name else ()
        places.append((strings[int(of_model)], path))
    return places, rank[which]


def _frame_places(calls: ModuleCalls) -> tuple[list[_Place], Int64]:
    """Return the same for frames, which know only their own names: by the path of calls."""
    strings = calls.trace.strings
    names = calls.trace.slices.name[calls.rows].tolist()
    known: dict[tuple[int, int], int] = {}
    places: list[_Place] = []
    of_call: list[int] = []
    for name, parent in zip(names, calls.parent.tolist(), strict=True):
        around = -1 if parent < 0 else of_call[parent]
        if (around, name) not in known:
            known[around, name] = len(places)
            text = _frame_name(strings[name])
            model, path = (text, ()) if around < 0 else places[around]
            places.append((model, path if around < 0 else (*path, text)))
        of_call.append(known[around, name])
    return places, np.array(of_call, np.int64)


def _frame_name(text: str) -> str:
    return text.removeprefix(MODULE_PREFIX)


def _outermost(parent: Int64) -> Int64:
    """Return for every call the one around all others that it is in."""
    top = np.where(parent < 0, np.arange(len(parent)), parent)
    while (top[top] != top).any():
        top = top[top]
    return top


def _is_outer(group: Int64, parent: Int64) -> Bool:
    outer = np.ones(len(group), np.bool_)
    inner, above = np.flatnonzero(parent >= 0), parent[parent >= 0]
    while len(inner):
        outer[inner[group[inner] == group[above]]] = False
        above = parent[above]
        inner, above = inner[above >= 0], above[above >= 0]
    return outer
