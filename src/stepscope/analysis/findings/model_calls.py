"""How the models were called in the steps: which, in which mode, with what."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.host.sampled_stacks import NO_SAMPLE
from stepscope.analysis.tree import outermost
from stepscope.trace.fragments import pairs_of
from stepscope.trace.model import Bool, Int64, SliceKind

TRAINING, GRAD, MODEL, DTYPE = "Training", "Grad", "Model id", "Input dtype"


class ModelCalls:
    """The outermost calls of models in the steps, one row each."""

    def __init__(self, facts: Facts) -> None:
        self._trace = facts.trace
        slices = facts.trace.slices
        modules = facts.in_steps(np.flatnonzero(slices.kind == SliceKind.MODULE))
        self.rows = outermost(facts.trace, modules)

        def told(key: str) -> Int64:
            return slices.args.dense(key, len(slices), 1)[self.rows]

        self.training: Bool = told(TRAINING) != 0
        self.grad: Bool = told(GRAD) != 0
        self.model = told(MODEL)

    def input_types(self) -> list[str]:
        """Return the type of the first input of each call, as the framework spells it."""
        args, strings = self._trace.slices.args, self._trace.strings
        if not len(args.rest):
            return [""] * len(self.rows)
        texts = args.rest[self.rows]
        types = {
            text: str(pairs_of(strings[text]).get(DTYPE, "")) for text in np.unique(texts).tolist()
        }
        return [types[text] for text in texts.tolist()]


def moments_inside(facts: Facts, rows: Int64) -> Bool:
    """Return the moments of the ledger within some slices."""
    ledger, samples = facts.ledger, facts.trace.samples
    inside = np.append(facts.within(rows), False)  # the last for no slice
    inside[rows] = True
    found = np.zeros(len(ledger), np.bool_)
    sampled = ledger.row != NO_SAMPLE
    found[sampled] = inside[samples.slice[ledger.row[sampled]]]
    return found
