"""Our functions that take the place of torch.profiler's: where its stacks are recorded, the
same names stand there as without us."""

from __future__ import annotations

from functools import cache
from typing import Any

from stepscope import _native
from stepscope.record.recorder import Recorder
from stepscope.record.session import Session


@cache
def name_stand_ins() -> None:
    """Show calls of our functions under the names of torch's; needs torch."""
    from torch.profiler import profiler as theirs

    from stepscope.frameworks.torch.dialect import lowlevel
    from stepscope.frameworks.torch.dialect import profile as ours

    low = theirs._KinetoProfile
    high: Any = theirs.profile
    pairs: list[tuple[Any, Any]] = [
        *((getattr(ours.profile, name), getattr(high, name)) for name in _OF_BOTH),
        (Session._go, high._transit_action),
        (lowlevel.LowLevelProfile.start, low.start),
        (lowlevel.LowLevelProfile.stop, low.stop),
        (Recorder.start, low.start_trace),
        (Recorder.finish, low.stop_trace),
    ]
    for our, their in pairs:
        code = their.__code__
        place = f"torch/profiler/profiler.py({code.co_firstlineno})"
        _native.stand_in(our.__code__, f"{place}: {code.co_name}")


_OF_BOTH = ("__enter__", "__exit__", "start", "stop", "step")
