"""Work of the program itself in its loop: Python code, data prepared there, library calls."""

from __future__ import annotations

import builtins
import re
import sys
import zlib
from collections import deque
from dataclasses import replace
from datetime import date
from decimal import Decimal
from random import Random
from struct import Struct

import numpy as np

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.base.remedies import Remedy
from stepscope.analysis.code.own_lines import OWN, Place
from stepscope.analysis.code.sampled_stacks import SampledStack, any_in, last_name
from stepscope.analysis.code.source_files import SourceFiles, imported_module
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.model import DETECTORS, Finding, Severity
from stepscope.analysis.findings.spots import (
    Spot,
    finding_at,
    hot_spot,
    share_words,
    spent_words,
    taken,
)
from stepscope.analysis.findings.tensors import reading_spot
from stepscope.analysis.steps.causes import EVENT_LOOPS, Cause, phase_of_stack
from stepscope.units import duration_text

MIN_SHARE = 0.05  # what takes less of a step is not worth the change
MIN_LIBRARY_SHARE = 0.15  # a library's Python code that takes less is the price of using it
DATA_SHARE = 0.5  # with more native calls, the work is preparing data rather than running Python

_DATA_LIBRARIES = frozenset(
    {
        *("numpy", "pandas", "PIL", "cv2", "scipy", "sklearn", "skimage", "tokenizers", "polars"),
        *("albumentations", "imageio", "librosa", "soundfile", "datasets", "sentencepiece", "zlib"),
        *("pyarrow", "h5py", "json", "orjson", "csv", "gzip", "bz2", "lzma", "pickle", "nltk"),
        *("transformers",),  # outside of the model's phases: its tokenizers
    }
)
_STANDARD_TYPES = (
    *(str, bytes, bytearray, list, dict, set, int, float, deque, date, Decimal, Random, Struct),
    *(re.Pattern, re.Match, type(zlib.compressobj()), type(zlib.decompressobj())),
)
_BULK = frozenset({"zlib", "gzip", "bz2", "lzma", "hashlib", "hmac", "binascii", "base64", "ssl"})
_DATABASE = frozenset({"execute", "executemany", "executescript", "fetchall", "fetchone"})
# Methods that arrays have, too, may be an array's.
_BUILTINS = frozenset(
    name for owner in (builtins, *_STANDARD_TYPES) for name in dir(owner)
) - frozenset(dir(np.ndarray)).difference(dir(builtins))
_WRITING = frozenset(
    {
        *("dump", "dumps", "write", "writerow", "writerows", "writelines", "savetxt", "savez"),
        *("to_csv", "to_json", "to_parquet", "to_pickle", "tofile", "imwrite", "savez_compressed"),
    }
)
_IN_CALLS = (Cause.NATIVE, Cause.FORWARD, Cause.OPERATORS, Cause.OTHER)
_ROOTS = ("np.", "numpy.", "pd.", "pandas.", "cv2.", "Image.", "json.", "zlib.", "gzip.", "pickle.")


@DETECTORS.register
def tensors_from_lists(facts: Facts) -> Finding | None:
    """Find tensors that are built from Python lists, element by element."""
    ledger = facts.ledger
    which = ledger.spent_on(*_IN_CALLS) & ledger.where_stack(
        lambda stack: _makes_tensor_of_list(stack) or _makes_array_of_list(stack),
    )
    spot = hot_spot(ledger, which)
    if spot is None or spot.each_ns < MIN_SHARE * ledger.unit_ns:
        return None
    callee = _commonest_callee(facts, spot)
    return finding_at(
        facts,
        spot,
        "tensors-from-lists",
        title=f"Building tensors from Python lists takes {taken(ledger, spot)}",
        text=(
            f"{callee} visits every element of the list: {duration_text(spot.each_ns)} "
            f"a {ledger.unit}{spot.called_from}."
        ),
        fix=facts.advise(Remedy.WHOLE_ARRAYS),
    )


@DETECTORS.register
def python_work(facts: Facts) -> Finding | None:
    """Find Python code, or data that is prepared, while the model waits."""
    ledger = facts.ledger
    alone = not facts.frameworks & landmarks().packages
    spot = _spot_of_own_work(facts, alone=alone)
    if spot is None:
        return None
    data = ledger.where_stack(_prepares_data)
    is_data = ledger.each_ns(spot.which & data) >= DATA_SHARE * spot.each_ns
    spent = spent_words(ledger, spot.which)
    callee = _commonest_callee(facts, spot)
    if is_data and not alone and callee.rpartition(".")[2] in _WRITING:
        return finding_at(
            facts,
            spot,
            "writing-in-loop",
            title=f"Writing results in the loop takes {taken(ledger, spot)}",
            text=f"{spent} goes into {callee}{spot.called_from}, and the model waits meanwhile.",
            fix="Write every few dozen steps, only what is new, or in a background thread.",
        )
    if is_data and not alone:
        calls = f", mostly in {callee}" if callee else ""
        return finding_at(
            facts,
            spot,
            "data-in-loop",
            title=f"Preparing data in the loop takes {taken(ledger, spot)}",
            text=f"{spent} is spent preparing data{calls}{spot.called_from}, and the model waits "
            "meanwhile.",
            fix=f"Do it once before the loop, or in the background ({facts.background}).",
        )
    in_c_ns = ledger.each_ns(spot.which & ledger.spent_on(Cause.NATIVE))
    what = (Cause.NATIVE if 2 * in_c_ns > spot.each_ns else Cause.PYTHON).words
    is_bulk = alone and ledger.each_ns(spot.which & ledger.where_stack(_calls_bulk)) > (
        DATA_SHARE * spot.each_ns
    )
    finding = finding_at(
        facts,
        spot,
        "python-work",
        title=f"{callee if is_bulk else what} takes {taken(ledger, spot)}",
        text=(
            f"{spent} is spent in {what} there{_mostly_in(facts, spot)}{spot.called_from}"
            + ("." if alone else "; the model waits meanwhile.")
        ),
        fix=(
            "Move it out of the loop if its result does not change, else replace Python loops by "
            "operations on whole arrays or tensors"
            + (
                "."
                if alone
                else f", or prepare the next batch in the background ({facts.background})."
            )
        ),
    )
    # A server that mostly has nothing to do keeps nobody waiting. What compresses or hashes all day
    # may be there for that.
    if is_bulk or ledger.idle_ns > ledger.total_ns:
        return replace(finding, severity=Severity.LOW)
    return finding


def _spot_of_own_work(facts: Facts, *, alone: bool) -> Spot | None:
    """Return where Python code or a library's holds up a step; ``alone``: there is no model.

    What has a finding of its own is left out.
    """
    ledger = facts.ledger
    native = ledger.spent_on(Cause.NATIVE)
    if not facts.frameworks & landmarks().with_operators:
        # Such a program leaves its actual work to libraries.
        native &= ledger.where_stack(
            lambda stack: (
                _calls_builtin(stack, ledger.files) or (not alone and _prepares_data(stack))
            ),
        )
    which = (ledger.spent_on(Cause.PYTHON) | native) & ~ledger.where_stack(
        lambda stack: (
            _makes_tensor_of_list(stack) or _makes_array_of_list(stack) or _is_event_loop(stack)
        ),
    )
    if reading := reading_spot(facts):  # has a finding of its own
        which &= ~reading.which
    spot = hot_spot(ledger, which)
    if spot is None or spot.each_ns < MIN_SHARE * ledger.unit_ns:
        return None
    if alone:
        spot = _with_short_calls(facts, spot)
    return spot if spot.each_ns >= MIN_SHARE * ledger.unit_ns else None


def _with_short_calls(facts: Facts, spot: Spot) -> Spot:
    """Add short native calls on lines that mostly run Python."""
    ledger = facts.ledger
    native = ledger.spent_on(Cause.NATIVE)
    libraries = ledger.where_stack(lambda stack: stack.library != OWN)
    lines: dict[Place | None, list[int]] = {}
    for row, stack in ledger.stacks.items():
        lines.setdefault(stack.line, []).append(row)
    mine = np.unique(ledger.stack[spot.which]).tolist()
    which = spot.which.copy()
    for line in {ledger.stacks[row].line for row in mine}:
        there = np.isin(ledger.stack, lines[line])
        calls_ns = ledger.each_ns(there & native & ~spot.which)
        mine_ns = ledger.each_ns(there & spot.which)
        if calls_ns < mine_ns:
            which |= there & native
        elif 2 * ledger.each_ns(there & spot.which & libraries) > mine_ns:
            which &= ~there  # the price of using a library, which does most of the work
    return replace(spot, which=which, each_ns=ledger.each_ns(which))


def _mostly_in(facts: Facts, spot: Spot) -> str:
    """Name the call in which most of a spot's time is spent, unless it is Python code itself."""
    ledger = facts.ledger
    called = ledger.spent_on(Cause.NATIVE) | ledger.where_stack(lambda stack: stack.beyond != ())
    called_ns = ledger.each_ns(spot.which & called)
    callee = _commonest_callee(facts, spot) if called_ns > DATA_SHARE * spot.each_ns else ""
    return f", mostly in {callee}" if callee else ""


@DETECTORS.register
def library_call(facts: Facts) -> Finding | None:
    """Find a framework's Python code outside the model that costs much of a step."""
    ledger = facts.ledger
    machinery = ledger.where_stack(lambda stack: any_in(stack.beyond[:1], landmarks().machinery))
    spot = hot_spot(ledger, ledger.spent_on(Cause.LIBRARY) & ~machinery)
    if spot is None:
        return None
    # The line's operators are part of the same calls.
    entry = _entry(facts, spot)
    same = ledger.where_stack(
        lambda stack: (
            bool(stack.beyond)
            and stack.beyond[0].file == entry
            and phase_of_stack(stack) is None  # a trainer also runs the model
        ),
    )
    which = same & ledger.spent_on(Cause.LIBRARY, *_IN_CALLS)
    each_ns = ledger.each_ns(which)
    share = each_ns / ledger.unit_ns if ledger.unit_ns else 0.0
    if share < MIN_LIBRARY_SHARE or not entry:
        return None
    module = entry.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return finding_at(
        facts,
        spot,
        "library-call",
        title=f"{module} takes {share_words(share, ledger.unit)}: {spot.words}",
        text=(
            f"{duration_text(each_ns)} a {ledger.unit} are spent in {module}{spot.called_from}; "
            f"{duration_text(spot.each_ns)} of that is Python code around its operators."
        ),
        fix=_library_fix(module),
        saves_ns=each_ns,
    )


def _library_fix(module: str) -> str:
    if ".distributions" in module:
        return (
            "Pass validate_args=False (torch.distributions.Distribution.set_default_validate_args("
            "False)), or compute what is needed directly: log_softmax and multinomial."
        )
    return "Call it less often, on larger inputs, or compute what is needed with fewer operators."


def _entry(facts: Facts, spot: Spot) -> str:
    """Return the library's file that the spot's line calls."""
    ledger = facts.ledger
    sums: dict[str, float] = {}
    for row in np.flatnonzero(spot.which):
        beyond = ledger.stacks[int(ledger.stack[row])].beyond
        if beyond:
            sums[beyond[0].file] = sums.get(beyond[0].file, 0.0) + float(ledger.weight_ns[row])
    return max(sums, key=lambda file: sums[file], default="")


def _calls_builtin(stack: SampledStack, files: SourceFiles) -> bool:
    """Tell whether own code runs what Python provides: ``sum``, ``text.split``, ``json``."""
    if stack.beyond:  # files of the standard library, if the stack has no other library
        return stack.library == OWN
    module, _, name = stack.callee.rpartition(".")
    root = stack.callee.partition(".")[0]
    if stack.line and (imported := imported_module(files, stack.line, root)):
        return imported.partition(".")[0] in sys.stdlib_module_names
    return name in _BUILTINS | _DATABASE or module in sys.stdlib_module_names


def _calls_bulk(stack: SampledStack) -> bool:
    """Tell whether native code works on large data, so that no Python loop could be replaced."""
    return stack.callee.partition(".")[0] in _BULK or any(
        frame.file.partition("/")[0].removesuffix(".py") in _BULK for frame in stack.beyond
    )


def _is_event_loop(stack: SampledStack) -> bool:
    """Tell whether an event loop runs that no line of the program is in: a server library's."""
    return any(frame.file.startswith(EVENT_LOOPS) for frame in stack.beyond)


def _makes_tensor_of_list(stack: SampledStack) -> bool:
    return stack.callee in landmarks().tensors_from_lists


def _makes_array_of_list(stack: SampledStack) -> bool:
    return stack.callee in ("np.array", "np.asarray", "numpy.array") and stack.library == OWN


def _prepares_data(stack: SampledStack) -> bool:
    if stack.library in _DATA_LIBRARIES or stack.callee.startswith(_ROOTS):
        return True
    if any(frame.file.startswith("torchvision/transforms") for frame in stack.beyond):
        return True
    is_standard = stack.beyond and stack.beyond[0].file.partition("/")[0] in _DATA_LIBRARIES
    return bool(is_standard) and stack.library not in landmarks().packages


def _commonest_callee(facts: Facts, spot: Spot) -> str:
    """Return the call that most of a spot's moments are in, as the program writes it."""
    ledger = facts.ledger
    sums: dict[str, float] = {}
    for row in np.flatnonzero(spot.which):
        stack = ledger.stacks[int(ledger.stack[row])]
        name = _called_name(stack)
        if name:
            sums[name] = sums.get(name, 0.0) + float(ledger.weight_ns[row])
    return max(sums, key=lambda name: sums[name], default="")


def _called_name(stack: SampledStack) -> str:
    """Return what own code calls: ``zlib.compress``, ``json.dumps``; empty if nothing."""
    if not stack.beyond:
        return stack.callee
    frame = stack.beyond[0]
    module = frame.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}.{last_name(frame)}"
