"""The calls of a trace, and what distinguishes calls of one name; all sections share them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepscope.analysis.base.labels import Labels, labels, shape_labels
from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.tree import CallTree, call_tree
from stepscope.analysis.calls.launches import Launches, launches
from stepscope.analysis.calls.module_calls import module_of_slices
from stepscope.analysis.code.stacks import stack_labels, stack_of_events
from stepscope.analysis.host.averages import Averages, single_events
from stepscope.analysis.host.flame import without_address
from stepscope.analysis.memory.by_event import with_memory
from stepscope.trace.model import NO_SLICE, Trace
from stepscope.trace.names import MODULE_PREFIX

_FRAMES = 5  # innermost frames of a stack that distinguish calls


@dataclass(frozen=True)
class Calls:
    """The events of a trace, and what distinguishes calls of one name; each is computed once."""

    trace: Trace

    @cached_property
    def tree(self) -> CallTree:
        return with_memory(call_tree(self.trace))

    @cached_property
    def single(self) -> Averages:
        return single_events(self.tree, with_flops=True)

    @cached_property
    def launches(self) -> Launches | None:
        """Return which host event launched which device work."""
        return launches(self.tree)

    @cached_property
    def groupings(self) -> dict[str, Labels[str]]:
        """Return a label per event for each grouping that the trace supports."""
        candidates = {"shapes": self._shapes(), "stack": self._stacks(), "module": self._modules()}
        return {name: column for name, column in candidates.items() if column is not None}

    def _shapes(self) -> Labels[str] | None:
        column = shape_labels(self.tree)
        return column if any(text != "[]" for text in column.texts) else None

    def _stacks(self) -> Labels[str] | None:
        stacks = stack_of_events(self.tree)
        if stacks is None:
            return None
        column = stack_labels(stacks, len(self.tree), self.tree.trace.strings, _FRAMES)
        texts = [without_address("\n".join(frames)) for frames in column.texts]
        code_of = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        codes = np.array([code_of[text] for text in texts], np.uint32)
        return Labels(codes[column.codes], tuple(code_of))

    def _modules(self) -> Labels[str] | None:
        call = module_of_slices(self.trace)
        if not (call != NO_SLICE).any():
            return None
        # Id 0 is the empty text: no module. Memory events come after all slices.
        name = np.zeros(len(self.tree.trace.slices), np.uint32)
        name[: len(call)] = np.where(call == NO_SLICE, 0, self.trace.slices.name[call])
        strings = self.tree.trace.strings
        return labels(self.tree, name, strings, lambda text: text.removeprefix(MODULE_PREFIX))


@shared
def calls_of(trace: Trace) -> Calls:
    """Return the calls of a trace, the same for all sections of a report."""
    return Calls(trace)
