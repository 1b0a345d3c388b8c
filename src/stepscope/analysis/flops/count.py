"""Floating-point operations, from the shapes that operators were called with.

Whose they are
    An operator counts when there is a formula for its name and no operator around it has counted:
    the outermost formula wins. ``aten::conv2d`` counts, the ``aten::convolution`` and
    ``aten::mkldnn_convolution`` in it do not; where ``aten::conv2d`` cannot know (its padding is
    the word "same"), the ``aten::convolution`` in it counts. Wrappers around matrix products
    (``aten::linear``, ``aten::matmul``, ``aten::einsum``, ``aten::scaled_dot_product_attention``,
    ``aten::lstm``) have no formula: the operators in them are always there and say more. So
    nothing counts twice, and flops add up over any set of slices, over modules and over the trace.

How many
    A multiplication and the addition after it are two. Matrix products, convolutions and attention
    give the numbers of ``torch.utils.flop_counter``; ``aten::mm``, ``aten::addmm``, ``aten::bmm``,
    ``aten::baddbmm``, ``aten::conv2d``, ``aten::mul`` and ``aten::add`` those of
    ``torch.profiler``. A causal mask, sparsity and the zeros of a padding save nothing; a complex
    number counts as one number.

Where torch counts otherwise
    - ``flop_counter`` takes the weight's gradient of a convolution in g groups for g times what it
      is: it forgets that a channel only meets those of its own group.
    - ``flop_counter`` takes heads for lengths where ``aten::_flash_attention_forward`` is called
      directly: that kernel's tensors have them the other way round.
    - ``flop_counter`` counts 0 for ``aten::mv``, ``aten::dot``, ``aten::addbmm``, attention on a
      CPU (``..._flash_attention_for_cpu``), the LSTM of oneDNN and cuDNN, and the fast inference of
      ``nn.TransformerEncoder``.
    - ``torch.profiler`` counts a product or sum by the size of its first input, so a scalar times
      a matrix is 1; we count the size of the result.
    - ``torch.profiler`` counts integers; we count numbers with a fraction only.
    - ``torch.profiler`` counts ``x + alpha * y`` as one; we count two unless alpha is one.
    - Both leave out in-place sums, norms, softmax, pooling, activations, reductions, optimizers;
      ``torch.profiler`` also every convolution but ``aten::conv2d``, attention and all gradients
      of convolutions.

Paddle's eager operators (``matmul dygraph``) count as torch's do. Those behind Python's operators
(``x + y``), those of the backward pass and static graphs carry no shapes.

Unknown is 0: other operators, and shapes that are missing or make no sense.
"""

from __future__ import annotations

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import inside
from stepscope.analysis.base.tree import distinct_ids
from stepscope.analysis.flops.formulas import formula_of
from stepscope.analysis.flops.inputs import Formula, Inputs
from stepscope.trace.model import Float64, Int64, SliceKind, Slices, Trace

_MOST = 2**63 - 1


@shared
def flops_of(trace: Trace) -> Int64:
    """Return the floating-point operations of every slice; 0 for what is none, or not known."""
    slices, strings = trace.slices, trace.strings
    formulas = {int(i): formula_of(strings[int(i)]) for i in distinct_ids(slices.name)}
    rows = _candidates(slices, formulas)
    if not len(rows):
        return np.broadcast_to(np.int64(0), len(slices))  # takes no room
    flops = np.zeros(len(slices), np.int64)
    pair = slices.name[rows].astype(np.uint64) << np.uint64(32) | slices.args.rest[rows]
    pairs, which = np.unique(pair, return_inverse=True)
    counts = [
        operations(formula, strings[key & 0xFFFFFFFF])
        for key in pairs.tolist()
        if (formula := formulas[key >> 32]) is not None
    ]
    flops[rows] = np.array(counts, np.int64)[which]
    flops[inside(slices.parent, flops > 0)] = 0
    return flops


def flops_per_second(flops: Int64, duration_ns: Int64) -> Float64:
    """Return what was achieved; 0 where nothing was counted or no time passed."""
    took = duration_ns > 0
    return np.where(took, flops * 1e9 / np.where(took, duration_ns, 1), 0.0)


def operations(formula: Formula, fragment: str) -> int:
    """Apply a formula to the JSON fragment of a slice; 0 if inputs are missing."""
    try:
        count = formula(Inputs.parse(fragment))
    except ValueError:
        return 0
    return count if 0 <= count <= _MOST else 0


def _candidates(slices: Slices, formulas: dict[int, Formula | None]) -> Int64:
    """Return the rows of operators that have a formula and arguments."""
    if not len(slices.args.rest) or not formulas:
        return np.zeros(0, np.int64)
    has_formula = np.zeros(max(formulas) + 1, np.bool_)
    has_formula[[name for name, formula in formulas.items() if formula is not None]] = True
    asked = has_formula.take(slices.name)
    asked &= slices.kind == SliceKind.OPERATOR
    asked &= slices.args.rest != 0
    return np.flatnonzero(asked)
