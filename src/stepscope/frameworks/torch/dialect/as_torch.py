"""Converts a recording to torch.profiler's form, and writes files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.frameworks.torch.tensor_notes import FUNCTION_ID, SCRIPT
from stepscope.record.inputs import keywords_of
from stepscope.trace.build import build
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import CONCRETE_INPUTS, MODULE_HIERARCHY, RECORD_FUNCTION_ID
from stepscope.trace.model import IntColumn, SliceKind, Stacks
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepscope.frameworks.torch.tensor_notes import TensorNotes
    from stepscope.trace.model import Trace


def with_adjusted_steps(trace: Trace) -> Trace:
    """Move the start of a step to the Python call that it ends in, for ``adjust_profiler_step``.

    A step ends inside the call of ``step()``, and so inside the functions around that: by time
    alone it would cross those that began after it.
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
    """Add the numbers that an ExecutionTraceObserver gives operators, if one ran."""
    if notes is None or not len(notes):
        return trace
    chosen = np.flatnonzero(notes.notes["position"] == FUNCTION_ID)
    if not len(chosen):
        return trace
    rows = notes.rows_in(trace)[chosen]
    is_known = rows >= 0
    rows, numbers = rows[is_known], notes.notes["impl"][chosen][is_known]
    order = np.argsort(rows, kind="stable")
    column = IntColumn(rows[order].astype(np.uint32), numbers[order].astype(np.int64))
    args = replace(
        trace.slices.args, integers={**trace.slices.args.integers, RECORD_FUNCTION_ID: column}
    )
    return replace(trace, slices=replace(trace.slices, args=args))


def with_scripts(trace: Trace, notes: TensorNotes | None) -> Trace:
    """Add where operators were in a TorchScript program: frames of its source, and its modules.

    As in torch, frames of a script replace those of Python.
    """
    if notes is None or not notes.texts:
        return trace
    chosen = np.flatnonzero(notes.notes["position"] == SCRIPT)
    rows = notes.rows_in(trace)[chosen]
    chosen, rows = chosen[rows >= 0], rows[rows >= 0]
    frames, modules = (notes.notes[name][chosen].astype(np.int64) for name in ("impl", "storage"))
    with_frames, with_modules = frames > 0, modules > 0
    trace = _with_script_stacks(trace, rows[with_frames], frames[with_frames], notes.texts)
    return _with_hierarchies(trace, rows[with_modules], modules[with_modules], notes.texts)


def _with_script_stacks(
    trace: Trace,
    rows: NDArray[np.int64],
    numbers: NDArray[np.int64],
    texts_by_number: Mapping[int, str],
) -> Trace:
    texts, stacks = list(trace.strings), trace.stacks
    parents, frames = stacks.parent.tolist(), stacks.frame.tolist()
    stack_of: dict[int, int] = {}
    for number in np.unique(numbers).tolist():
        row = 0
        for frame in reversed(texts_by_number[number].splitlines()):
            parents.append(row)
            frames.append(len(texts))
            texts.append(frame)
            row = len(parents) - 1
        stack_of[number] = row
    column = trace.slices.stack.copy()
    column[rows] = [stack_of[number] for number in numbers.tolist()]
    return replace(
        trace,
        slices=replace(trace.slices, stack=column),
        stacks=Stacks(np.array(parents, np.uint32), np.array(frames, np.uint32)),
        strings=Strings.of(texts),
    )


def _with_hierarchies(
    trace: Trace,
    rows: NDArray[np.int64],
    numbers: NDArray[np.int64],
    texts_by_number: Mapping[int, str],
) -> Trace:
    slices, texts = trace.slices, list(trace.strings)
    rest = slices.args.rest.copy() if len(slices.args.rest) else np.zeros(len(slices), np.uint32)
    ids: dict[tuple[int, int], int] = {}
    for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
        key = int(rest[row]), number
        if key not in ids:
            pair = f'"{MODULE_HIERARCHY}": {json.dumps(texts_by_number[number])}'
            ids[key] = len(texts)
            texts.append(f"{texts[key[0]]}, {pair}" if texts[key[0]] else pair)
        rest[row] = ids[key]
    args = replace(slices.args, rest=rest)
    return replace(trace, slices=replace(slices, args=args), strings=Strings.of(texts))


def with_overloads_in_names(trace: Trace) -> Trace:
    """Name operators like ``aten::add.Tensor``, as ``capture_overload_names`` does in files."""
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
    """Remove the keyword inputs that torch.profiler does not write into files."""
    texts = list(trace.strings)
    new_texts = [_with_torch_keywords(text) for text in texts]
    return trace if new_texts == texts else replace(trace, strings=Strings.of(new_texts))


def _with_torch_keywords(text: str) -> str:
    # Keywords come first, see record.inputs.fragment.
    if text.startswith(f'"{CONCRETE_INPUTS}": [') or f'"{CONCRETE_INPUTS}": [' not in text:
        return text
    try:
        pairs = json.loads("{" + text + "}", strict=False)
    except ValueError:  # the program's own name in this place
        return text
    for key, value in keywords_of(pairs).items():
        if isinstance(value, str) and '"' in value:
            pairs[key] = "None"
        elif not _is_written(key, value):
            del pairs[key]
    return fragment_of(pairs)


def _is_written(key: str, value: Any) -> bool:
    """Tell whether torch writes a value: all but lists of other things than texts."""
    if key == "stream":
        return isinstance(value, int)
    is_list_of_others = isinstance(value, list) and not all(isinstance(v, str) for v in value)
    return not is_list_of_others


def export_chrome(trace: Trace, path: str | os.PathLike[str]) -> None:
    from stepscope.formats.chrome import write

    write.export_chrome(trace, path)


def export_as_torch(trace: Trace, path: str | os.PathLike[str], *, overloads: bool) -> None:
    """Write a trace as torch.profiler does, with its keywords and its names."""
    trace = with_torch_keywords(trace)
    export_chrome(with_overloads_in_names(trace) if overloads else trace, path)


def export_html(trace: Trace, path: str | os.PathLike[str]) -> None:
    from stepscope.report import build

    build.export_html(trace, path)
