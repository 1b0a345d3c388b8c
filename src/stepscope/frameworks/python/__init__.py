"""The Python program itself: calls, samples, collections, annotations, requests, children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.host.landmarks import LANDMARKS
from stepscope.formats.registry import FORMATS, Format
from stepscope.lazy import loader
from stepscope.record.source import SOURCES
from stepscope.record.stream.places import is_unsealed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.analysis.host.landmarks import Landmarks
    from stepscope.record.source import Source


@LANDMARKS.register
def _landmarks() -> Landmarks:
    from stepscope.frameworks.python.landmarks import LANDMARKS as OF_PYTHON

    return OF_PYTHON


@SOURCES.register
def _sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.python.annotations import Annotations
    from stepscope.frameworks.python.calls import PythonCalls
    from stepscope.frameworks.python.gc_pauses import GcPauses
    from stepscope.frameworks.python.requests import Requests
    from stepscope.frameworks.python.sampler import Sampler
    from stepscope.frameworks.python.workers import ChildProcesses

    return Annotations, PythonCalls, GcPauses, Requests, Sampler, ChildProcesses


def _is_unsealed(path: Path, _head: bytes) -> bool:
    return is_unsealed(path)


FORMATS.register(
    Format(
        "a recording that was not sealed",
        (),
        _is_unsealed,
        loader("stepscope.record.stream.recovering:recover"),
    )
)
