"""Numbers for the calls of Python functions, as torch.profiler gives them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stepscope.analysis.base.shared import shared
from stepscope.analysis.base.sums import around
from stepscope.trace.model import Int64, SliceKind, Trace

NO_NUMBER = -1
_MODULE_CALL = re.compile(r"nn\.Module: .*_(\d+)")


@dataclass(frozen=True, slots=True)
class PythonIds:
    """The numbers of all slices: Python calls count from 1, others are 0."""

    numbers: Int64
    callers: Int64  # the nearest Python call around a Python call, 0 without one

    def number(self, row: int) -> int:
        """Return the number of a Python call; NO_NUMBER for another slice."""
        return int(self.numbers[row]) or NO_NUMBER

    def caller(self, row: int) -> int:
        """Return the number of the call around a Python call; NO_NUMBER without one."""
        return int(self.callers[row]) or NO_NUMBER


@shared
def python_ids(trace: Trace) -> PythonIds:
    """Number the Python calls of a trace in order of their starts."""
    slices = trace.slices
    calls = np.flatnonzero(slices.kind == SliceKind.PYTHON)
    number = np.zeros(len(slices), np.int64)
    number[calls] = np.arange(1, len(calls) + 1)
    caller = around(slices.parent, calls, number > 0)
    callers = np.zeros(len(slices), np.int64)
    callers[calls] = np.where(caller >= 0, number[caller], 0)
    return PythonIds(number, callers)


def module_number(name: str) -> int:
    """Return 2 for ``nn.Module: Linear_2``, the third of its class; NO_NUMBER for others."""
    match = _MODULE_CALL.fullmatch(name)
    return int(match[1]) if match else NO_NUMBER
