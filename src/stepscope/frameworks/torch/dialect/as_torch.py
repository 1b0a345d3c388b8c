"""A recording in torch.profiler's own words, where a program asks for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.torch.tensor_notes import FUNCTION_ID
from stepscope.record.inputs import keywords_of
from stepscope.trace.build import build
from stepscope.trace.model import IntColumn, SliceKind
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.trace.model import Trace


def with_adjusted_steps(trace: Trace) -> Trace:
    """Let a step begin with the Python call that it ends in, as ``adjust_profiler_step`` asks.

    A step ends inside of the call of ``step()``, and so of the functions around that: by time alone
    it would cross those that began after it.
    """
    slices = trace.slices
    start_ns = slices.start_ns.copy()
    calls = np.flatnonzero(slices.kind == SliceKind.PYTHON)
    for step in np.flatnonzero(slices.kind == SliceKind.STEP).tolist():
        begins, ends = int(slices.start_ns[step]), int(slices.ends_of(step))
        starts = slices.start_ns[calls]
        crossing = (starts > begins) & (starts < ends) & (slices.ends_of(calls) > ends)
        crossing &= slices.track[calls] == slices.track[step]
        if crossing.any():
            start_ns[step] = int(starts[crossing].min()) + 1
    if (start_ns == slices.start_ns).all():
        return trace
    moved = replace(slices, start_ns=start_ns, duration_ns=slices.end_ns - start_ns)
    return build(replace(trace, slices=moved), trace.info)


def with_function_ids(trace: Trace, notes: TensorNotes | None) -> Trace:
    """Add the numbers by which an ExecutionTraceObserver knows the operators, where one ran."""
    if notes is None or not len(notes):
        return trace
    chosen = np.flatnonzero(notes.notes["position"] == FUNCTION_ID)
    if not len(chosen):
        return trace
    rows = notes.rows_in(trace)[chosen]
    known = rows >= 0
    rows, numbers = rows[known], notes.notes["impl"][chosen][known]
    order = np.argsort(rows, kind="stable")
    column = IntColumn(rows[order].astype(np.uint32), numbers[order].astype(np.int64))
    args = replace(
        trace.slices.args, integers={**trace.slices.args.integers, "Record function id": column}
    )
    return replace(trace, slices=replace(trace.slices, args=args))


def with_overloads_in_names(trace: Trace) -> Trace:
    """Call operators ``aten::add.Tensor``, as ``capture_overload_names`` does in files."""
    slices, texts = trace.slices, list(trace.strings)
    rows = np.flatnonzero(slices.overload)
    if not len(rows):
        return trace
    pairs = np.stack((slices.name[rows], slices.overload[rows]), axis=1)
    distinct, of_row = np.unique(pairs, axis=0, return_inverse=True)
    first = len(texts)
    texts += [f"{texts[name]}.{texts[overload]}" for name, overload in distinct.tolist()]
    names = slices.name.copy()
    names[rows] = (first + of_row.ravel()).astype(names.dtype)
    return replace(trace, slices=replace(slices, name=names), strings=Strings.of(texts))


def with_torch_keywords(trace: Trace) -> Trace:
    """Leave out the keyword inputs that torch.profiler does not write into files."""
    texts = list(trace.strings)
    kept = [_with_torch_keywords(text) for text in texts]
    return trace if kept == texts else replace(trace, strings=Strings.of(kept))


def _with_torch_keywords(text: str) -> str:
    # Keywords come first: see record.inputs.fragment.
    if text.startswith('"Concrete Inputs": [') or '"Concrete Inputs": [' not in text:
        return text
    try:
        pairs = json.loads("{" + text + "}", strict=False)
    except ValueError:  # a name of the program's
        return text
    for key, value in keywords_of(pairs).items():
        if isinstance(value, str) and '"' in value:
            pairs[key] = "None"
        elif not _is_written(key, value):
            del pairs[key]
    return json.dumps(pairs)[1:-1]


def _is_written(key: str, value: Any) -> bool:
    """Tell of a number, a text, a list of texts; a stream is a number."""
    if key == "stream":
        return isinstance(value, int)
    is_list_of_others = isinstance(value, list) and not all(isinstance(v, str) for v in value)
    return not is_list_of_others
