"""Recordings of training programs, written down: what each thread does, one thing after the other.

No time passes: a test says how long everything takes, so that it knows what a fix would save.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.trace.build import build
from stepscope.trace.model import (
    Args,
    IntColumn,
    SliceFlags,
    Stacks,
    ThreadState,
    Trace,
    TraceInfo,
    Track,
    WaitReason,
)
from stepscope.trace.schema import NO_SEQUENCE, Captured, Held, Marks, Samples, Slices
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Stack = tuple[str, ...]  # the outermost frame first

US, MS = 1_000, 1_000_000
MIB = 1 << 20
STEPS = 16  # the first of them counts as warming up
FORWARD_NS, BACKWARD_NS, OPTIMIZER_NS = 40 * MS, 40 * MS, 20 * MS
STEP_NS = FORWARD_NS + BACKWARD_NS + OPTIMIZER_NS

LOOP = ("train.py(20): <module>",)
MODULE_CALL = "torch/nn/modules/module.py(1): _call_impl"
FORWARD = (*LOOP, "train.py(12): step", MODULE_CALL, "model.py(7): Model.forward")
BACKWARD = (*LOOP, "train.py(13): step", "torch/_tensor.py(1): backward")
OPTIMIZER = (*LOOP, "train.py(14): step", "torch/optim/sgd.py(1): step")

_SAMPLED_EVERY_NS = MS
_RETURN_NS = 100  # between the end of a slice and what its thread does next
_PROCESS = "10"


@dataclass
class _Slice:
    name: str
    category: str
    start_ns: int
    sequence: int
    flags: int
    args: Mapping[str, int]
    end_ns: int = 0


@dataclass
class _Sample:
    stack: int
    state: ThreadState
    wait: WaitReason
    thread: int
    time_ns: int
    duration_ns: int


class Program:
    """A program that trains on the CPU; its methods say what its main thread, 0, does next."""

    def __init__(
        self, parallelism: Mapping[str, float] | None = None, *, framework: str = "torch"
    ) -> None:
        self.now_ns = 0
        self._framework = framework
        self._parallelism = parallelism or {}
        self._texts = {"": 0}
        self._stacks = {(0, 0): 0}  # a row by its caller's row and its frame
        self._slices: list[_Slice] = []
        self._samples: list[_Sample] = []
        self._blocks: list[tuple[int, int, int]] = []  # time, size, stack
        self._resident: list[tuple[int, int]] = []  # time, size

    def sample(
        self,
        stack: Stack,
        state: ThreadState,
        ns: int,
        *,
        wait: WaitReason = WaitReason.UNKNOWN,
    ) -> None:
        """Spend some time in a stack; the sampler looks every ms."""
        self.aside(0, stack, state, ns, wait=wait)
        self.now_ns += ns

    def aside(
        self,
        thread: int,
        stack: Stack,
        state: ThreadState,
        ns: int,
        *,
        wait: WaitReason = WaitReason.UNKNOWN,
    ) -> None:
        """Have another thread do something from now on; no time passes for the main thread."""
        row = self._stack(stack)
        for at_ns in range(0, ns, _SAMPLED_EVERY_NS):
            lasts_ns = min(_SAMPLED_EVERY_NS, ns - at_ns)
            self._samples.append(_Sample(row, state, wait, thread, self.now_ns + at_ns, lasts_ns))

    @contextmanager
    def recorded(
        self,
        name: str,
        category: str = "user_annotation",
        *,
        sequence: int = NO_SEQUENCE,
        flags: int = 0,
        args: Mapping[str, int] | None = None,
    ) -> Iterator[None]:
        """Record a slice around what happens within the block."""
        opened = _Slice(name, category, self.now_ns, sequence, flags, args or {})
        self._slices.append(opened)
        yield
        opened.end_ns = self.now_ns - _RETURN_NS

    def operator(
        self, name: str, ns: int, stack: Stack = FORWARD, *, sequence: int = NO_SEQUENCE
    ) -> None:
        """Run an operator."""
        with self.recorded(name, "cpu_op", sequence=sequence):
            self.sample(stack, ThreadState.NATIVE, ns)

    def backward(self, ns: int, *, functions: int = 1, sequence: int = NO_SEQUENCE) -> None:
        """Go through the graph: some functions that share the time."""
        for _ in range(functions):
            with self.recorded(
                "ConvolutionBackward0", "cpu_op", sequence=sequence, flags=SliceFlags.BACKWARD
            ):
                self.sample(BACKWARD, ThreadState.NATIVE, ns // functions)

    @contextmanager
    def module(
        self, name: str, *, model: int = 1, grad: bool = True, training: bool = True
    ) -> Iterator[None]:
        """Call a model."""
        args = {"Model id": model, "Grad": int(grad), "Training": int(training)}
        with self.recorded(name, "module", args=args):
            yield

    def forward(self, ns: int = FORWARD_NS, *, sequence: int = NO_SEQUENCE) -> None:
        """Run the model that is trained."""
        with self.module("Model"):
            self.operator("aten::conv2d", ns, sequence=sequence)

    def update(self, ns: int = OPTIMIZER_NS) -> None:
        """Run the optimizer, which ends the step."""
        with self.recorded("Optimizer.step#SGD.step"):
            self.sample(OPTIMIZER, ThreadState.NATIVE, ns)

    def step(self, *, slower: int = 1) -> None:
        """Train on a batch and end the step; nothing is wrong with that."""
        self.forward(FORWARD_NS * slower)
        self.backward(BACKWARD_NS * slower)
        self.update(OPTIMIZER_NS * slower)

    def keep(self, stack: Stack, size: int) -> None:
        """Ask for memory that is never given back."""
        self._blocks.append((self.now_ns, size, self._stack(stack)))

    def resident(self, size: int) -> None:
        """Count the memory of the process."""
        self._resident.append((self.now_ns, size))

    def trace(self) -> Trace:
        """Return the recording."""
        slices, samples = self._slice_table(), self._sample_table()
        blocks, marks = self._held_table(), self._mark_table()
        parent, frame = np.array(list(self._stacks), np.uint32).T
        threads = 1 + max(sample.thread for sample in self._samples)
        captured = Captured(
            slices,
            tuple(Track(_PROCESS, str(int(_PROCESS) + thread)) for thread in range(threads)),
            Strings.of(self._texts),
            Stacks(parent.copy(), frame.copy()),
            marks=marks,
            samples=samples,
            held=blocks,
        )
        info = TraceInfo(
            "stepscope",
            end_ns=self.now_ns,
            pid=int(_PROCESS),
            versions={self._framework: "2.9"},
            parallelism=self._parallelism,
            libraries=("pandas", "sklearn"),
            code_folders=("/nowhere",),  # the files that frames name are not on this machine
        )
        return build(captured, info)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _stack(self, stack: Stack) -> int:
        row = 0
        for frame in stack:
            row = self._stacks.setdefault((row, self._text(frame)), len(self._stacks))
        return row

    def _slice_table(self) -> Slices:
        made = self._slices
        return Slices.of(
            name=_column([self._text(item.name) for item in made], np.uint32),
            category=_column([self._text(item.category) for item in made], np.uint32),
            start_ns=_column([item.start_ns for item in made], np.int64),
            duration_ns=_column([item.end_ns - item.start_ns for item in made], np.int64),
            track=_column([0] * len(made), np.uint32),
            sequence=_column([item.sequence for item in made], np.int64),
            flags=_column([item.flags for item in made], np.uint8),
            args=_arguments([item.args for item in made]),
        )

    def _sample_table(self) -> Samples:
        made = self._samples
        return Samples.of(
            time_ns=_column([item.time_ns for item in made], np.int64),
            duration_ns=_column([item.duration_ns for item in made], np.int64),
            track=_column([item.thread for item in made], np.uint32),
            stack=_column([item.stack for item in made], np.uint32),
            state=_column([item.state for item in made], np.uint8),
            wait=_column([item.wait for item in made], np.uint8),
        )

    def _held_table(self) -> Held:
        time_ns, size, stack = np.array(self._blocks, np.int64).reshape(-1, 3).T
        return Held.of(
            time_ns=time_ns,
            duration_ns=self.now_ns - time_ns,
            size=size,
            device=_column([self._text("cpu")] * len(size), np.uint32),
            track=_column([0] * len(size), np.uint32),
            stack=stack.astype(np.uint32),
            is_held=_column([1] * len(size), np.uint8),
        )

    def _mark_table(self) -> Marks:
        name = self._text("resident memory")
        return Marks.of(
            phase=_column([ord("C")] * len(self._resident), np.uint8),
            name=_column([name] * len(self._resident), np.uint32),
            time_ns=_column([time_ns for time_ns, _ in self._resident], np.int64),
            args=_arguments([{"bytes": size} for _, size in self._resident]),
        )


def _column(values: Sequence[int], dtype: type[np.generic]) -> NDArray[Any]:
    return np.array(values, dtype)


def _arguments(fields: Sequence[Mapping[str, int]]) -> Args:
    """Return the arguments of each row."""
    columns = {}
    for key in sorted({key for item in fields for key in item}):
        rows = [row for row, item in enumerate(fields) if key in item]
        values = [fields[row][key] for row in rows]
        columns[key] = IntColumn(_column(rows, np.uint32), _column(values, np.int64))
    return Args(columns)
