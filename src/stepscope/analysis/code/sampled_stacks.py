"""The stacks of samples, told apart: the program's own lines, and what they call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from stepscope.analysis.base.landmarks import Files, Functions
from stepscope.analysis.base.shared import shared
from stepscope.analysis.code.own_lines import OWN, Place, own_code, place_of
from stepscope.analysis.code.stacks import launcher_rows
from stepscope.trace.model import NO_SLICE, Int64, Trace

NO_SAMPLE = -1

_COMPREHENSIONS = re.compile(r"(((^|\.)<locals>)?(^|\.)<(listcomp|genexpr|setcomp|dictcomp)>)+$")
_NATIVE_CALL = "<native call "


@dataclass(frozen=True, slots=True)
class SampledStack:
    """One stack of Python frames; all tuples begin with the outermost."""

    frames: tuple[Place, ...]  # all calls in one file
    own: tuple[Place, ...]  # those of the program itself
    beyond: tuple[Place, ...]  # of libraries, called by the innermost own frame, or all
    callee: str  # the native function that runs, as the program calls it; "" if none
    library: str  # of the innermost frame that is not Python's own library; OWN is the program

    @property
    def line(self) -> Place | None:
        """Return the innermost line of the program, None if only libraries run."""
        return self.own[-1] if self.own else None

    def runs(self, file: str, *functions: str) -> bool:
        """Tell whether a frame is one of some functions in a file whose name ends so."""
        return any(
            frame.file.endswith(file) and (not functions or last_name(frame) in functions)
            for frame in self.frames
        )


@shared
def sampled_stacks(trace: Trace) -> dict[int, SampledStack]:
    """Return the stacks of samples by their rows in the trace.

    The frames around the program are nobody's: before its first line, a stack has none.
    """
    code = own_code(trace)
    around = launcher_rows(trace.stacks, trace.strings)
    place_of_text: dict[int, Place | str] = {}
    sampled = {}
    for row in np.unique(trace.samples.stack).tolist():
        frames: list[Place] = []
        callee = ""
        rows = trace.stacks.rows(row)
        for at in reversed(rows):
            if around[at]:
                continue
            text = int(trace.stacks.frame[at])
            if text not in place_of_text:
                written = trace.strings[text]
                place_of_text[text] = place_of(written) or written
            place = place_of_text[text]
            if isinstance(place, Place):
                frames.append(place)
            else:
                callee = _callee(place)
        if not frames and around[rows].any():
            callee = ""
        last = max((i for i, frame in enumerate(frames) if code.is_own(frame)), default=-1)
        own = _without_comprehensions([frame for frame in frames if code.is_own(frame)])
        beyond = tuple(frames[last + 1 :])
        libraries = (code.library(frame.file) for frame in reversed(frames))
        library = next((name for name in libraries if not _is_standard(name)), OWN)
        sampled[row] = SampledStack(tuple(frames), own, beyond, callee, library)
    return sampled


def _without_comprehensions(frames: list[Place]) -> tuple[Place, ...]:
    """Replace comprehensions by lines of the function that contains them.

    Newer Pythons have no frame for most of them.
    """
    places: list[Place] = []
    for frame in frames:
        function = _COMPREHENSIONS.sub("", frame.function) or "<module>"
        is_inner = function != frame.function and places
        if is_inner and (places[-1].file, places[-1].function) == (frame.file, function):
            places.pop()
        places.append(frame._replace(function=function))
    return tuple(places)


def samples_at(trace: Trace, rows: Int64) -> Int64:
    """Return the sample of its thread that covers each slice's start.

    It is NO_SAMPLE where there is none, and for NO_SLICE.
    """
    samples, slices = trace.samples, trace.slices
    sample_of_row = np.full(len(rows), NO_SAMPLE, np.int64)
    for track in np.unique(samples.track).tolist():
        mine = np.flatnonzero(samples.track == track)
        asked = np.flatnonzero((rows != NO_SLICE) & (slices.track[rows] == track))
        start_ns = slices.start_ns[rows[asked]]
        at = np.searchsorted(samples.time_ns[mine], start_ns, side="right") - 1
        sample = mine[np.maximum(at, 0)]
        covers = (at >= 0) & (start_ns < samples.end_ns[sample])
        sample_of_row[asked[covers]] = sample[covers]
    return sample_of_row


def last_name(place: Place) -> str:
    """Return the name of a frame's function without its class."""
    return place.function.rpartition(".")[2]


def package_of(place: Place) -> str:
    """Return the package of a library's frame, the first part of its file."""
    return place.file.partition("/")[0]


def any_in(places: Iterable[Place], files: Files) -> bool:
    """Tell whether a frame is in one of some files or folders."""
    return any(place.file.startswith(files) for place in places)


def any_of(places: Iterable[Place], functions: Functions) -> bool:
    names_in = _names_by_file(functions)
    return any(
        place.file in names_in and last_name(place) in names_in[place.file] for place in places
    )


def is_one_of(place: Place, functions: Functions) -> bool:
    return any_of((place,), functions)


@cache
def _names_by_file(functions: Functions) -> dict[str, set[str]]:
    names_in: dict[str, set[str]] = {}
    for file, names in functions:
        names_in.setdefault(file, set()).update(names)
    return names_in


def _callee(frame: str) -> str:
    return frame.removeprefix(_NATIVE_CALL).removesuffix(">") if frame.startswith("<") else ""


def _is_standard(library: str) -> bool:
    import sys

    return library in sys.stdlib_module_names or library.startswith("<")


def own_path(trace: Trace, row: int) -> tuple[Place, ...]:
    """Return the program's own frames of one stack, the outermost first."""
    code = own_code(trace)
    places = (place_of(trace.strings[text]) for text in reversed(trace.stacks.frames(row)))
    return _without_comprehensions(
        [place for place in places if place is not None and code.is_own(place)]
    )
