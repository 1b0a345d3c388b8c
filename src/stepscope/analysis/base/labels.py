"""Text columns stored as codes: the keys by which averages are grouped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from stepscope.analysis.base.tree import CallTree, distinct_ids
from stepscope.trace.fragments import pairs_of
from stepscope.trace.keys import INPUT_DIMS
from stepscope.trace.model import UInt32
from stepscope.trace.strings import Strings

_Text = TypeVar("_Text")
_STEP_PREFIX = "ProfilerStep#"


@dataclass(frozen=True, slots=True)
class Labels(Sequence[_Text], Generic[_Text]):
    """A column of texts: a code per row, and the distinct texts that the codes stand for.

    The "texts" of a column of stacks are tuples of frames.
    """

    codes: UInt32
    texts: Sequence[_Text]

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> _Text: ...
    @overload
    def __getitem__(self, index: slice) -> Labels[_Text]: ...
    def __getitem__(self, index: int | slice) -> _Text | Labels[_Text]:
        if isinstance(index, slice):
            return Labels(self.codes[index], self.texts)
        return self.texts[int(self.codes[index])]

    def take(self, rows: NDArray[np.integer[Any]]) -> Labels[_Text]:
        return Labels(self.codes[rows], self.texts)


def name_labels(tree: CallTree) -> Labels[str]:
    """Return the name of every event, as it is grouped and shown."""
    return labels(tree, tree.trace.slices.name, tree.trace.strings, shown_name)


def overload_labels(tree: CallTree) -> Labels[str]:
    """Return the overload of every event; empty for what is no operator."""
    return labels(tree, tree.trace.slices.overload, tree.trace.strings, str)


def shape_labels(tree: CallTree) -> Labels[str]:
    """Return the input shapes of every event, as Python writes them; ``[]`` without."""
    rest = tree.trace.slices.args.rest
    if not len(rest):
        return Labels(np.zeros(len(tree), np.uint32), ("[]",))
    return labels(tree, rest, tree.trace.strings, lambda text: str(input_dims(text)))


def labels(
    tree: CallTree, ids: UInt32, strings: Strings, show: Callable[[str], str]
) -> Labels[str]:
    """Return a column of string ids as labels; ids shown alike share a code."""
    column = tree.of(ids)
    present = distinct_ids(column)
    code_of_text: dict[str, int] = {}
    codes = [code_of_text.setdefault(show(strings[int(i)]), len(code_of_text)) for i in present]
    table = np.zeros(int(present[-1]) + 1 if len(present) else 0, np.uint32)
    table[present] = codes
    return Labels(table.take(column), tuple(code_of_text))


def shown_name(name: str) -> str:
    """Return the name under which an event is grouped: all steps are one."""
    return "ProfilerStep*" if name.startswith(_STEP_PREFIX) else name


def input_dims(rest: str) -> list[Any]:
    """Return the input shapes in a JSON fragment of arguments, empty if none."""
    return flat_dims(pairs_of(rest).get(INPUT_DIMS, []))


def flat_dims(dims: object) -> list[Any]:
    """Return shapes as torch's events have them: a list of tensors shows as ``[]``."""
    if not isinstance(dims, list):
        return []
    return [
        [] if isinstance(shape, list) and any(isinstance(size, list) for size in shape) else shape
        for shape in dims
    ]
