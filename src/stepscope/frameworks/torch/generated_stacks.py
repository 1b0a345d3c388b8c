"""Adds the model's lines to stacks of generated code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.trace.model import Stacks
    from stepscope.trace.schema import Captured

    Origins = Callable[[str, int], Sequence[tuple[str, ...]]]  # frames by file and line

_GENERATED = re.compile(r"(.*[/\\]c[a-z2-7]{20,}\.py)\((\d+)\): ")  # named after a hash of its text


def with_origins(captured: Captured, origins: Origins) -> Captured:
    """Add the model's line below generated code in the stacks of slices.

    A fused kernel comes from several lines: it gets the last, which has its result.
    """
    stacks, strings = captured.stacks, captured.strings
    ends: dict[int, tuple[str, ...]] = {}  # by row: the frames to add
    for row, file, line in _generated_rows(stacks, strings):
        if frames_of_line := origins(file, line):
            ends[row] = frames_of_line[-1]
    if not ends:
        return captured
    extended = _Extended(stacks, strings)
    end_of = extended.add(ends)
    slices = replace(captured.slices, stack=end_of[captured.slices.stack])
    return replace(
        captured, slices=slices, stacks=extended.stacks, strings=Strings.of(extended.texts)
    )


def _generated_rows(stacks: Stacks, strings: Strings) -> Iterator[tuple[int, str, int]]:
    for text in np.unique(stacks.frame).tolist():
        if place := _GENERATED.match(strings[text]):
            for row in np.flatnonzero(stacks.frame == text).tolist():
                yield row, place[1], int(place[2])


class _Extended:
    """A table of stacks that can grow."""

    def __init__(self, stacks: Stacks, strings: Strings) -> None:
        self._first = len(stacks)
        self._old = stacks
        self._parent: list[int] = []
        self._frame: list[int] = []
        self.texts: list[str] = list(strings)
        self._ids: dict[str, int] = {}

    def add(self, ends: Mapping[int, tuple[str, ...]]) -> NDArray[np.uint32]:
        """Add frames to some rows; return the new row of each row, or of its caller."""
        end_of = np.arange(self._first, dtype=np.uint32)
        for row in range(1, self._first):  # callers precede what they call
            parent = int(self._old.parent[row])
            if row in ends:
                end_of[row] = self._end(row, ends[row])
            elif end_of[parent] != parent:
                end_of[row] = end_of[parent]
        return end_of

    def _end(self, row: int, frames: tuple[str, ...]) -> int:
        for text in frames:
            if text not in self._ids:
                self._ids[text] = len(self.texts)
                self.texts.append(text)
            self._parent.append(row)
            self._frame.append(self._ids[text])
            row = self._first + len(self._parent) - 1
        return row

    @property
    def stacks(self) -> Stacks:
        return self._old.extended(np.array(self._parent), np.array(self._frame))
