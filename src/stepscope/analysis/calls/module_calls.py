"""The calls of modules, the slices that belong to each, and the groups that a table of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import nearest, summed, with_children
from stepscope.analysis.base.tree import distinct_ids
from stepscope.analysis.calls.backward import forward_operators
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import OWN_PARAMETERS, PARAMETERS
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceFlags, SliceKind, Trace
from stepscope.trace.names import MODULE_PREFIX

_Path = tuple[str, ...]  # of names below the model; empty for the model itself
_Place = tuple[str, _Path]  # a model's class, and where in it


"""How torch.profiler's Python frames of module calls begin (``nn.Module: Linear_0``)."""


@dataclass(frozen=True, slots=True)
class ModuleCalls:
    """The slices that are module calls, and what belongs to them."""

    trace: Trace
    rows: Int64  # the slices that are module calls, ascending
    parent: Int64  # the call around each, an index of ``rows``; -1 for the call of a whole model
    owner: Int64  # for each slice the call it belongs to, an index of ``rows``, or -1
    is_backward: Bool  # for each slice whether it ran in the backward pass
    are_frames: bool  # they are Python frames of a foreign trace, which know no qualified names

    def __len__(self) -> int:
        return len(self.rows)


def module_of_slices(trace: Trace) -> Int64:
    """Return for every slice the module call it belongs to, NO_SLICE if none.

    A module call belongs to itself; everything else to the nearest call around it. A function of
    the backward pass, and what runs in it, belongs to the call of the operator that it is the
    backward of.
    """
    calls = module_calls(trace)
    return np.append(calls.rows, NO_SLICE)[calls.owner]


@shared
def module_calls(trace: Trace) -> ModuleCalls:
    """Find the module calls of a trace and the slices that belong to each."""
    slices = trace.slices
    rows = np.flatnonzero(slices.kind == SliceKind.MODULE)
    are_frames = not len(rows)
    if are_frames:
        rows = _module_frames(trace)
    tied_to = forward_rows(trace)
    is_tied = tied_to != NO_SLICE
    around = np.where(is_tied, tied_to.astype(np.int32), slices.parent)
    index = np.full(len(slices) + 1, -1, np.int64)
    index[rows] = np.arange(len(rows))
    owner = index[nearest(around, index[:-1] >= 0)]
    above = around[rows]
    backward = is_tied | (slices.flags & SliceFlags.BACKWARD != 0)
    is_backward = nearest(slices.parent, backward) != NO_SLICE
    parent = np.append(owner, -1)[above]
    return ModuleCalls(trace, rows, parent, owner, is_backward, are_frames)


def forward_rows(trace: Trace) -> Int64:
    """Return the forward operator of every slice in the backward pass, or NO_SLICE."""
    slices = trace.slices
    has_forward = slices.forward_thread > 0  # torch's thread ids start at 1
    outside = ~(has_forward | (slices.flags & SliceFlags.BACKWARD != 0))
    backward = np.flatnonzero(has_forward)
    forward = np.full(len(slices), NO_SLICE, np.int64)
    forward[backward] = forward_operators(trace, backward, outside)
    return forward


def _module_frames(trace: Trace) -> Int64:
    python = np.flatnonzero(trace.slices.kind == SliceKind.PYTHON)
    names = distinct_ids(trace.slices.name[python])
    wanted = [i for i in names if trace.strings[int(i)].startswith(MODULE_PREFIX)]
    return python[np.isin(trace.slices.name[python], wanted)]


@dataclass(frozen=True, slots=True)
class Sums:
    """A value for each group, and a last one for slices outside modules."""

    own: Int64  # without the modules that were called in it
    total: Int64  # with them


@dataclass(frozen=True, slots=True)
class ModuleGroups:
    """The rows of a table of modules in the order of their first calls."""

    module_calls: ModuleCalls
    places: Sequence[_Place]
    of_call: Int64  # the group of each call
    is_itself: Bool  # whether a call is of the group's module, not of one folded into it
    is_outer: Bool  # whether no call around a call is in the same group

    @staticmethod
    def of(calls: ModuleCalls, depth: int | None) -> ModuleGroups:
        """Give each module a group; modules below ``depth`` share their ancestor's."""
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
        """Return the qualified name of each group's module, the class for a model."""
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
        """Return each module's calls; if it was never called, those of the modules inside it."""
        itself = self._count(self.is_itself)
        return np.where(itself > 0, itself, self._count(self.is_outer))

    @property
    def parameters(self) -> Int64:
        """Return the parameters of each module, including those of its children."""
        of_call = self._argument(PARAMETERS)
        latest = self._latest()
        latest_parameters = np.append(of_call, 0)[latest]
        for group in np.flatnonzero(latest < 0):
            # Never called itself: what the modules right in it hold.
            inner = np.flatnonzero((self.of_call == group) & self.is_outer)
            names = self.module_calls.trace.slices.name[self.module_calls.rows[inner]]
            _, first = np.unique(names, return_index=True)
            latest_parameters[group] = of_call[inner[first]].sum()
        return np.append(latest_parameters, 0)

    @property
    def own_parameters(self) -> Int64:
        """Return the parameters of each module itself."""
        parameters = np.append(self._argument(OWN_PARAMETERS), 0)[self._latest()]
        return np.append(parameters, 0)

    def sums(self, of_slice: Int64) -> Sums:
        """Sum a column of the slices by the modules that the slices belong to."""
        calls = self.module_calls
        of_call = summed(calls.owner, of_slice, len(calls))
        without = of_slice.sum(keepdims=True) - of_call.sum()  # the last row belongs to no module
        group = np.append(self.of_call, len(self))
        own = summed(group, np.append(of_call, without), len(self) + 1)
        within = np.append(with_children(calls.parent.astype(np.int32), of_call), without)
        outer = np.append(self.is_outer, True)
        return Sums(own, summed(group[outer], within[outer], len(self) + 1))

    def _count(self, calls: Bool) -> Int64:
        return np.bincount(self.of_call[calls], minlength=len(self) + 1).astype(np.int64)

    def _latest(self) -> Int64:
        """Return the latest call of each group's module, -1 if none."""
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
    """Return the distinct places in the order of first calls, and each call's place."""
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
    """Return the same for frames, which know only their own names, by the path of calls."""
    strings = calls.trace.strings
    names = calls.trace.slices.name[calls.rows].tolist()
    place_numbers: dict[tuple[int, int], int] = {}
    places: list[_Place] = []
    of_call: list[int] = []
    for name, parent in zip(names, calls.parent.tolist(), strict=True):
        around = -1 if parent < 0 else of_call[parent]
        if (around, name) not in place_numbers:
            place_numbers[around, name] = len(places)
            text = _frame_name(strings[name])
            model, path = (text, ()) if around < 0 else places[around]
            places.append((model, path if around < 0 else (*path, text)))
        of_call.append(place_numbers[around, name])
    return places, np.array(of_call, np.int64)


def _frame_name(text: str) -> str:
    return text.removeprefix(MODULE_PREFIX)


def _outermost(parent: Int64) -> Int64:
    """Return the outermost call around every call."""
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
