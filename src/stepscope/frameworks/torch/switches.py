"""Follows torch.profiler's process-wide switches, which torch offers no way to read."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.record.patching import Patches
from stepscope.trace.fragments import fragment_of
from stepscope.trace.keys import CONCRETE_INPUTS
from stepscope.trace.model import NO_THREAD
from stepscope.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace


@dataclass(slots=True)
class Switches:
    """What is shown of a recording; as in torch, everything by default."""

    forward_backward: bool = True  # links between operators and backward functions, in files
    concrete_inputs: bool = True  # values of scalar inputs


SWITCHES = Switches()
_SETTERS = {
    "_set_fwd_bwd_enabled_val": "forward_backward",
    "_set_record_concrete_inputs_enabled_val": "concrete_inputs",
}


def _follow(patches: Patches) -> None:
    native: Any = sys.modules["torch"]._C._profiler

    def following(name: str, setter: Callable[[bool], None]) -> Callable[[bool], None]:
        def switch(value: bool) -> None:
            setter(value)
            setattr(SWITCHES, name, bool(value))

        return switch

    for setter, name in _SETTERS.items():
        if hasattr(native, setter):
            patches.wrap(native, setter, partial(following, name))


FOLLOWED = Patches(_follow)
"""While these hold, who switches torch's switches ours, too."""


def as_switched(trace: Trace, switches: Switches) -> Trace:
    """Return the trace without what was switched off during the recording."""
    slices, strings = trace.slices, trace.strings
    if not switches.forward_backward:
        slices = replace(slices, forward_thread=np.full(len(slices), NO_THREAD, np.int64))
    if not switches.concrete_inputs:
        strings = Strings.of([_without_values(text) for text in strings])
    if slices is trace.slices and strings is trace.strings:
        return trace
    return replace(trace, slices=slices, strings=strings)


def _without_values(text: str) -> str:
    if f'"{CONCRETE_INPUTS}": [' not in text:
        return text
    try:
        pairs = json.loads("{" + text + "}", strict=False)
    except ValueError:  # the program's own name in this place
        return text
    pairs[CONCRETE_INPUTS] = [""] * len(pairs[CONCRETE_INPUTS])
    return fragment_of(pairs)
