"""The Python program itself: calls, samples, collections, annotations, requests, children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.record.source import SOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.source import Source


@SOURCES.register
def _sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.python.annotations import Annotations
    from stepscope.frameworks.python.calls import PythonCalls
    from stepscope.frameworks.python.gc_pauses import GcPauses
    from stepscope.frameworks.python.requests import Requests
    from stepscope.frameworks.python.sampler import Sampler
    from stepscope.frameworks.python.workers import ChildProcesses

    return Annotations, PythonCalls, GcPauses, Requests, Sampler, ChildProcesses
