"""The sources of any Python program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frameworks.python.options import ANNOTATIONS, GC_PAUSES, REQUESTS, SAMPLE
from stepscope.record.options import AS_TORCH, STACKS
from stepscope.record.source import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.source import Source


@with_options(ANNOTATIONS, STACKS, AS_TORCH, GC_PAUSES, REQUESTS, SAMPLE)
def python_sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.python.annotations import Annotations
    from stepscope.frameworks.python.calls import PythonCalls
    from stepscope.frameworks.python.gc_pauses import GcPauses
    from stepscope.frameworks.python.requests import Requests
    from stepscope.frameworks.python.sampler import Sampler
    from stepscope.frameworks.python.workers import ChildProcesses

    return Annotations, PythonCalls, GcPauses, Requests, Sampler, ChildProcesses
