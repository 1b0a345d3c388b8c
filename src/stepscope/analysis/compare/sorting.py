"""Slices sorted by what is compared: operator, shapes and module, phase, kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stepscope.analysis.base.labels import input_dims, shown_name
from stepscope.analysis.base.sums import distinct, distinct_pairs, nearest, summed
from stepscope.analysis.base.tree import distinct_ids
from stepscope.analysis.calls.module_calls import ModuleGroups, module_calls
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.compare.moments import Moments, Windows
from stepscope.analysis.host.flame import without_address
from stepscope.analysis.steps.parts import GLUE_NS, host_parts
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import WorkKind, device_work
from stepscope.trace.keys import INPUT_DIMS
from stepscope.trace.model import NO_SLICE, Bool, Int64, SliceKind, Trace
from stepscope.trace.names import MODULE_PREFIX

BETWEEN = "between events"  # what no event covers is mostly Python

NO_KERNEL = "no device work"

_KNOWN_SHAPES = 0.5  # share of operators with shapes, below which rows are not split by shapes
_OPERATOR, _DEVICE, _RANGE, _PYTHON, _RUNTIME, _MODULE = range(6)
_KINDS = ("operator", "device", "range", "python", "runtime", "python")
_OF_MODULE = "Python of the module"  # without its name, which the module's path has
_IDLE = {"operator": "idle", "range": "idle", "python": "idle", "runtime": "idle"}

Group = tuple[str, str, str, str]  # kind, module, name, shapes


@dataclass(frozen=True, slots=True)
class Sorting:
    """The group of every slice; the last group stands for NO_SLICE."""

    trace: Trace = field(repr=False)
    groups: tuple[Group, ...]
    group: Int64 = field(repr=False)  # of each slice
    is_gap: Bool = field(repr=False)  # whether no operator or device work runs in a group
    is_counted: Bool = field(repr=False)  # whether each slice is a call of its group

    def group_at(self, owner: Int64) -> Int64:
        """Return the groups of some slices or NO_SLICE."""
        return np.append(self.group, len(self.groups) - 1)[owner]

    def counts(self, chosen: Windows) -> Int64:
        """Return how many calls of each group begin in the given steps."""
        start_ns = self.trace.slices.start_ns
        begins = np.searchsorted(chosen.start_ns, start_ns, side="right") - 1
        inside = self.is_counted & (begins >= 0)
        if len(chosen):
            inside &= start_ns < chosen.end_ns[begins]
        return np.bincount(self.group[inside], minlength=len(self.groups)).astype(np.int64)

    def phases_of(self, moments: Moments) -> dict[str, tuple[int, int]]:
        """Return the time of each part of a step, see ``steps/breakdown.py``."""
        part = _parts(self.trace, moments)
        sums = summed(part, moments.ns, len(Part))
        return {step_part.words: (int(sums[step_part]), 0) for step_part in Part if sums[step_part]}

    def kernels_of(self, moments: Moments) -> dict[str, tuple[int, int]]:
        """Return the time and count of each kernel, copy and fill; empty without devices."""
        work = device_work(self.trace)
        if not len(work):
            return {}
        is_work = np.zeros(len(self.trace.slices) + 1, np.bool_)
        is_work[work.rows] = True
        mine = is_work[moments.owner]
        strings, name = self.trace.strings, self.trace.slices.name
        names, code = distinct(name[moments.owner[mine]])
        ns = summed(code, moments.ns[mine], len(names))
        ran = np.zeros(len(name), np.bool_)
        ran[moments.owner[mine]] = True
        counts = np.bincount(name[ran], minlength=len(strings))
        times: dict[str, tuple[int, int]] = {}
        for i, name_id in enumerate(names.tolist()):
            text = kernel_name(strings[name_id])
            before = times.get(text, (0, 0))
            times[text] = before[0] + int(ns[i]), before[1] + int(counts[name_id])
        rest = int(moments.ns.sum()) - sum(ns for ns, _ in times.values())
        return {**times, NO_KERNEL: (rest, 0)} if rest else times


def knows_shapes(trace: Trace) -> bool:
    """Tell whether the inputs' shapes of most operators were recorded."""
    slices = trace.slices
    operators = int((slices.kind == SliceKind.OPERATOR).sum())
    if not operators or not len(slices.args.rest):
        return False
    shapes = _shape_codes(trace)[0]
    with_shapes = int(((shapes > 0) & (slices.kind == SliceKind.OPERATOR)).sum())
    return with_shapes >= _KNOWN_SHAPES * operators


def sorting(trace: Trace, *, with_shapes: bool) -> Sorting:
    """Sort the slices of a trace by operator, module and, where wanted, shapes."""
    slices, strings = trace.slices, trace.strings
    work = device_work(trace)
    holder, kind = _holders(trace)
    name = slices.name[holder].astype(np.int64) if len(slices) else np.zeros(0, np.int64)
    shape, shapes = _shape_codes(trace) if with_shapes else (np.zeros(len(slices), np.int64), [""])
    shape = np.where(np.isin(kind, (_OPERATOR, _DEVICE)), shape[holder], 0)
    module, modules = _module_codes(trace, holder)
    (names, kinds), first = distinct_pairs(name, kind)
    (shaped, moduled), second = distinct_pairs(shape, module)
    (firsts, seconds), group = distinct_pairs(first, second)
    shown = _ShownNames()
    on_device = bool(len(work))
    groups: dict[Group, int] = {}  # steps, and objects with addresses, share one
    is_gap: list[bool] = []
    number = []
    for i, j in zip(firsts.tolist(), seconds.tolist(), strict=True):
        word = _KINDS[kinds[i]]
        word = _IDLE.get(word, word) if on_device else word
        text = shown(strings[int(names[i])], int(kinds[i]))
        key = (word, modules[int(moduled[j])], text, shapes[int(shaped[j])])
        number.append(groups.setdefault(key, len(groups)))
        if number[-1] == len(is_gap):
            is_gap.append(kinds[i] not in (_OPERATOR, _DEVICE, _RUNTIME))
    nothing: Group = ("idle" if on_device else "python", "", BETWEEN, "")
    is_counted = np.where(kind == _DEVICE, True, holder == np.arange(len(slices)))
    return Sorting(
        trace,
        (*groups, nothing),
        np.array(number, np.int64)[group] if number else group,
        np.array([*is_gap, True]),
        is_counted,
    )


class _ShownNames:
    """Names of groups: steps without numbers, objects without addresses."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, int], str] = {}

    def __call__(self, name: str, kind: int) -> str:
        if (name, kind) not in self._shown:
            is_module = kind == _MODULE or name.startswith(MODULE_PREFIX)
            shown = _OF_MODULE if is_module else without_address(shown_name(name))
            self._shown[name, kind] = kernel_name(shown) if kind == _DEVICE else shown
        return self._shown[name, kind]


def _holders(trace: Trace) -> tuple[Int64, Int64]:
    """Return for each slice the one that names its group, and what kind that is.

    The innermost operator; of device work that which launched it; else the slice itself.
    """
    slices = trace.slices
    itself = np.arange(len(slices), dtype=np.int64)
    operator = nearest(slices.parent, slices.kind == SliceKind.OPERATOR).astype(np.int64)
    holder = np.where(operator == NO_SLICE, itself, operator)
    of_kind = np.full(max(SliceKind) + 1, _RANGE, np.int64)
    of_kind[SliceKind.PYTHON] = _PYTHON
    of_kind[SliceKind.RUNTIME] = _RUNTIME
    of_kind[SliceKind.MODULE] = _MODULE
    kind = np.where(operator == NO_SLICE, of_kind[slices.kind], _OPERATOR)
    work = device_work(trace)
    if len(work):
        launched_by = work.operator[work.rows]
        holder[work.rows] = np.where(launched_by == NO_SLICE, work.rows, launched_by)
        kind[work.rows] = _DEVICE
    return holder, kind


def _shape_codes(trace: Trace) -> tuple[Int64, list[str]]:
    """Return for each slice the index of its input shapes among the texts; 0 if unknown."""
    rest = trace.slices.args.rest
    if not len(rest):
        return np.zeros(len(trace.slices), np.int64), [""]
    texts = {"": 0}
    present = distinct_ids(rest)
    table = np.zeros(int(present[-1]) + 1 if len(present) else 1, np.int64)
    for text_id in present.tolist():
        fragment = trace.strings[text_id]
        if f'"{INPUT_DIMS}"' in fragment:
            dims = ", ".join(str(shape) for shape in input_dims(fragment) if shape)
            table[text_id] = texts.setdefault(dims, len(texts))
    return table[rest], list(texts)


def _module_codes(trace: Trace, holder: Int64) -> tuple[Int64, list[str]]:
    """Return for each slice the index of its module's path among the texts; 0 if none."""
    calls = module_calls(trace)
    if not len(calls):
        return np.zeros(len(trace.slices), np.int64), [""]
    groups = ModuleGroups.of(calls, None)
    several = len(set(groups.model)) > 1
    texts = [""]
    for model, path in zip(groups.model, groups.name, strict=True):
        texts.append(f"{model}.{path}" if several and path != model else path)
    of_call = np.append(groups.of_call + 1, 0)
    return of_call[calls.owner[holder]], texts


def _parts(trace: Trace, moments: Moments) -> Int64:
    parts = np.append(host_parts(trace), np.int8(Part.OTHER)).astype(np.int64)
    work = device_work(trace)
    if not len(work):
        return _without_glue(parts[moments.owner], moments)
    on_device = np.full(len(parts), -1, np.int64)
    host = np.where(work.call == NO_SLICE, work.operator[work.rows], work.call)
    part = parts[host]
    part[part == Part.COMMUNICATION] = Part.OTHER
    part[work.kind == WorkKind.COMMUNICATION] = Part.COMMUNICATION
    part[work.kind == WorkKind.COPY] = Part.COPIES
    on_device[work.rows] = part
    is_on_device = on_device[moments.owner]
    loads = parts[moments.owner] == Part.DATA_LOADING
    return np.where(is_on_device >= 0, is_on_device, np.where(loads, Part.DATA_LOADING, Part.IDLE))


def _without_glue(part: Int64, moments: Moments) -> Int64:
    """Give Python's time between two slices of one part to that part, see steps/parts.py."""
    begins = np.ones(len(part), np.bool_)
    begins[1:] = (part[1:] != part[:-1]) | (moments.step[1:] != moments.step[:-1])
    first = np.flatnonzero(begins)
    if len(first) < 3:
        return part
    run = np.cumsum(begins) - 1
    ns = summed(run, moments.ns, len(first))
    of_run, step = part[first], moments.step[first]
    glue = np.zeros(len(first), np.bool_)
    glue[1:-1] = (
        (of_run[1:-1] == Part.OTHER)
        & (ns[1:-1] <= GLUE_NS)
        & (of_run[:-2] == of_run[2:])
        & (step[:-2] == step[1:-1])
        & (step[2:] == step[1:-1])
    )
    of_run = np.where(glue, np.roll(of_run, 1), of_run)
    return np.asarray(of_run[run])
