"""A flame graph of sampled stacks: Python frames, modules, operators and kernels in one.

A sample has the frames of its thread and the slice that ran then. The calls of modules that are
around that slice take the place of the frames by which torch calls a module, and the operators that
ran stand below the frames. Device work stands below the operator that launched it, which has the
frames of the sample that was taken then on its thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.intervals import Intervals
from stepscope.analysis.base.landmarks import Functions, landmarks
from stepscope.analysis.base.sums import distinct_pairs
from stepscope.analysis.base.tree import levels
from stepscope.analysis.calls.launches import captured_nodes, origin_calls
from stepscope.analysis.calls.module_calls import forward_rows
from stepscope.analysis.calls.waiting import Doing, doing_of_samples, is_native
from stepscope.analysis.code.sampled_stacks import NO_SAMPLE, samples_at
from stepscope.analysis.code.stacks import KnownStacks, stacks_of_samples
from stepscope.analysis.host.flame import ALL, MOST_NODES, NO_LAUNCH, without_address
from stepscope.analysis.host.flame_merge import NATIVE, ROOT, Amounts, FlameGraph, Nodes, merged
from stepscope.trace.model import NO_PARENT, NO_SLICE, NO_STACK, Int64, SliceKind, Trace, UInt32
from stepscope.trace.names import MODULE_PREFIX

NO_PATH = 0
NO_PYTHON = "(no Python)"


def sampled_flame_graph(trace: Trace, *, steps: Intervals | None = None) -> FlameGraph:
    """Merge the samples of a trace by their stacks, and its device work by its launches.

    The metrics are cpu_ns, the time that samples stand for, and device_ns where there is any.
    """
    paths = _Paths(trace)
    helper = paths.node(ROOT, NO_PYTHON, SliceKind.OTHER)
    amounts = [_sampled(paths, steps, helper), *_launched(paths, steps)]
    return merged(paths.finished(), amounts, MOST_NODES)


def _sampled(paths: _Paths, steps: Intervals | None, helper: int) -> Amounts:
    samples = paths.trace.samples
    node = paths.nodes(paths.stacks.rows, samples.slice.astype(np.int64))
    in_steps = None if steps is None else steps.covered(samples.time_ns, samples.end_ns)
    return Amounts(
        "cpu_ns",
        np.where(node == ROOT, helper, node),
        samples.track.astype(np.int64),
        doing_of_samples(paths.trace) == Doing.WAITING,
        samples.duration_ns,
        in_steps,
    )


def _launched(paths: _Paths, steps: Intervals | None) -> Iterator[Amounts]:
    """Yield the time of device work, on the thread that launched it."""
    trace = paths.trace
    slices = trace.slices
    is_work = np.isin(slices.kind, (SliceKind.KERNEL, SliceKind.MEMCPY, SliceKind.MEMSET))
    work = np.flatnonzero(is_work)
    if not len(work):
        return
    host = origin_calls(trace, work)
    stack = np.where(
        captured_nodes(trace)[work] == NO_SLICE, _stacks_at(paths, host), slices.stack[host]
    )
    above = paths.nodes(stack, host)
    above[host == NO_SLICE] = paths.node(ROOT, NO_LAUNCH, SliceKind.OTHER)
    track = np.where(host == NO_SLICE, slices.track[work], slices.track[host])
    end_ns = slices.start_ns[work] + slices.duration_ns[work]
    yield Amounts(
        "device_ns",
        paths.below(above, slices.name[work], slices.kind[work]),
        track.astype(np.int64),
        np.zeros(len(work), np.bool_),
        slices.duration_ns[work],
        None if steps is None else steps.covered(slices.start_ns[work], end_ns),
    )


def _stacks_at(paths: _Paths, rows: Int64) -> UInt32:
    """Return the stack that was sampled on a slice's thread when the slice started.

    A function of the backward pass runs on a thread without Python: it has the stack of its
    forward operator.
    """
    trace = paths.trace
    forward = forward_rows(trace)
    source = np.where(rows == NO_SLICE, NO_SLICE, np.append(forward, NO_SLICE)[rows])
    stack = _sampled_at(paths, rows)
    return np.where(stack == NO_STACK, _sampled_at(paths, source), stack)


def _sampled_at(paths: _Paths, rows: Int64) -> UInt32:
    sample = samples_at(paths.trace, rows)
    return np.where(sample == NO_SAMPLE, NO_STACK, paths.stacks.rows[sample]).astype(np.uint32)


class _Paths:
    """Nodes by caller and text, created on request."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.stacks: KnownStacks = stacks_of_samples(trace)
        self._modules = _Chains(trace, (SliceKind.MODULE,), ())
        # Python between two operators is on the stack: the outer one is a caller of its frames.
        self._operators = _Chains(
            trace, (SliceKind.OPERATOR,), (SliceKind.PYTHON, SliceKind.MODULE)
        )
        self._texts: list[str] = []
        self._code_of: dict[str, int] = {}
        self._node_of: dict[tuple[int, int], int] = {}
        self._parent: list[int] = []
        self._code: list[int] = []
        self._kind: list[int] = []
        self.node(ROOT, ALL, SliceKind.OTHER)

    def nodes(self, stack: UInt32, slices: Int64) -> Int64:
        """Return the node of each pair of a stack and the slice that ran in it."""
        module = self._modules.of(slices)
        operator = self._operators.of(slices)
        (stacks, modules), which = distinct_pairs(stack, module)
        bases = [self._frames(int(s), int(m)) for s, m in zip(stacks, modules, strict=True)]
        base = np.array(bases or [ROOT], np.int64)[which]
        (bases_, operators), which = distinct_pairs(base, operator)
        new_nodes = [
            self._chain(int(above), self._operators.names(int(path)), SliceKind.OPERATOR)
            for above, path in zip(bases_, operators, strict=True)
        ]
        return np.array(new_nodes or [ROOT], np.int64)[which]

    def below(self, above: Int64, names: UInt32, kinds: NDArray[np.uint8]) -> Int64:
        (parents, texts), which = distinct_pairs(above, names)
        kind = np.zeros(len(parents), np.uint8)
        kind[which] = kinds
        strings = self.trace.strings
        nodes = [
            self.node(int(parent), strings[int(text)], SliceKind(int(of)))
            for parent, text, of in zip(parents, texts, kind, strict=True)
        ]
        return np.array(nodes, np.int64)[which]

    def node(self, above: int, text: str, kind: int) -> int:
        text = without_address(text)
        code = self._code_of.setdefault(text, len(self._texts))
        if code == len(self._texts):
            self._texts.append(text)
        node = self._node_of.setdefault((above, code), len(self._parent))
        if node == len(self._parent):
            self._parent.append(above)
            self._code.append(code)
            self._kind.append(kind)
        return node

    def finished(self) -> Nodes:
        return Nodes(
            np.array(self._parent, np.int64),
            np.array(self._code, np.int64),
            np.array(self._kind, np.uint8),
            self._texts,
        )

    def _frames(self, stack: int, path: int) -> int:
        """Return the node of a stack inside the modules of a path."""
        strings, marks = self.trace.strings, landmarks()
        modules = list(self._modules.names(path))
        node = ROOT
        for frame in reversed(self.stacks.table.frames(stack)):
            text = strings[frame]
            if modules and _is_one_of(text, marks.module_leads):
                continue
            if modules and _is_one_of(text, marks.module_calls):
                node = self.node(node, modules.pop(0), SliceKind.MODULE)
                continue
            node = self.node(node, text, NATIVE if is_native(text) else SliceKind.PYTHON)
        return node

    def _chain(self, above: int, names: list[str], kind: SliceKind) -> int:
        hidden = landmarks().hidden
        for name in names:
            if name not in hidden:
                above = self.node(above, name, kind)
        return above


class _Chains:
    """The slices of some kinds around every slice, as rows of a tree of names."""

    def __init__(
        self, trace: Trace, kinds: tuple[SliceKind, ...], ends: tuple[SliceKind, ...]
    ) -> None:
        """Follow ``kinds``; a slice of the kinds in ``ends`` starts a new chain."""
        slices = trace.slices
        self._strings = trace.strings
        wanted, begins = np.isin(slices.kind, kinds), np.isin(slices.kind, ends)
        path = np.zeros(len(slices) + 1, np.int64)  # the last for no slice
        parents, names = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        size = 1
        for level in levels(slices.depth):
            parent = slices.parent[level]
            path[level] = np.where(begins[level] | (parent == NO_PARENT), NO_PATH, path[parent])
            mine = level[wanted[level]]
            (above, name), which = distinct_pairs(path[mine], slices.name[mine])
            path[mine] = size + which
            parents.append(above)
            names.append(name.astype(np.int64))
            size += len(above)
        self._path = path
        self._parent, self._name = np.concatenate(parents), np.concatenate(names)

    def of(self, slices: Int64) -> Int64:
        """Return the chain of each slice, NO_PATH for none."""
        chain: Int64 = self._path[slices]
        return chain

    def names(self, path: int) -> list[str]:
        """Return the names of a chain, the outermost first."""
        names = []
        while path:
            names.append(self._strings[int(self._name[path])].removeprefix(MODULE_PREFIX))
            path = int(self._parent[path])
        return names[::-1]


def _is_one_of(frame: str, functions: Functions) -> bool:
    """Tell whether a frame is one of some functions, wherever their package is installed."""
    file, name = frame.partition("(")[0], frame.rpartition(" ")[2].rpartition(".")[2]
    return any(file.endswith(suffix) and name in names for suffix, names in functions)
