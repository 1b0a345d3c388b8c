"""The registry of landmarks: what a framework is doing when one of its files is on a stack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from typing import Any, TypeAlias

from stepscope.registry import Registry

Names: TypeAlias = frozenset[str]
Files: TypeAlias = tuple[str, ...]
Functions: TypeAlias = tuple[tuple[str, Names], ...]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

NONE: Names = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Landmarks:
    """The files, functions and operators by which the code of a framework is known.

    A file is written as recordings write it, from the package on. Files are compared by their
    beginning, so that ``torch/optim/`` is a whole folder; functions by their file and last name.
    """

    packages: Names = NONE  # whose Python code is the model's and the loop's machinery
    with_operators: Names = NONE  # calls that compute in operators rather than in native code
    operator_prefixes: tuple[str, ...] = ()  # prefixes of its operators' names
    operator_suffixes: tuple[str, ...] = ()  # or end
    fused_kernels: tuple[
        str, ...
    ] = ()  # prefixes of names of kernels that it generates, which are no products

    machinery: Files = ()  # work that every training step has
    layers: Files = ()
    module_calls: Functions = ()  # the frame that stands for a call of a module
    module_leads: Functions = ()  # frames that only lead there
    loaders: Files = ()
    backward: Functions = ()
    engine: Files = ()  # what starts and runs the backward pass
    optimizers: Files = ()
    communication: Files = ()
    children: Functions = ()  # that wait for the processes that they have started

    first_uses: Functions = ()  # of a device, or of anything that is set up once
    compilers: Files = ()
    loggers: Files = ()
    tensor_text: Files = ()  # what a tensor is printed by
    savers: Functions = ()
    saving_calls: Names = NONE  # as a program writes them

    tensors_from_lists: Names = NONE  # calls, as a program writes them
    reading_functions: Functions = ()  # that read a tensor in Python
    reads: Names = NONE  # operators that do
    reads_unseen: Names = NONE  # the packages whose operators do not tell of each read
    copies: Names = NONE  # operators that copy, or change type, device or layout
    joins: Names = NONE  # operators that join tensors
    gathers: Names = NONE  # operators that read some rows of their first input
    row_by_row: Names = NONE  # operators that need a row of their first input for each they make
    sorts: Names = NONE
    dense_gradients: Names = NONE  # operators that make a gradient which is zero in most rows
    recomputing: Files = ()  # code that computes again to save memory
    allocations: tuple[str, ...] = ()  # prefixes of operators that only allocate memory
    fills: Names = NONE  # operators that fill with zeros
    sized_by_values: Names = NONE  # operators whose result has a size that depends on values
    waits: Names = NONE  # operators that wait for the device, whatever calls them
    graph_nodes: tuple[str, ...] = ()  # suffixes of names of ranges that create a node of the graph

    hidden: Names = NONE  # what its profiler records and never shows
    unseen_frames: Pairs = ()  # frames that its profiler omits: parts of a file and of a function
    generated: Pairs = ()  # patterns of files that it writes and runs, and the package that does


# Each entry imports and returns the landmarks of one framework.
LANDMARKS: Registry[Callable[[], Landmarks]] = Registry()


def landmarks() -> Landmarks:
    """Return the landmarks of all frameworks as one."""
    return _joined(tuple(LANDMARKS))


@cache
def _joined(entries: tuple[Callable[[], Landmarks], ...]) -> Landmarks:
    all_marks = [entry() for entry in entries]
    joined: dict[str, Any] = {}
    for field in fields(Landmarks):
        of_all = chain.from_iterable(getattr(marks, field.name) for marks in all_marks)
        joined[field.name] = frozenset(of_all) if field.default is NONE else tuple(of_all)
    return Landmarks(**joined)
