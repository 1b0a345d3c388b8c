"""Forward, backward, optimization and data loading of a Paddle program, and its RecordEvents.

Paddle marks these phases itself while its profiler's flag is set; but then every call of a layer
takes a slow path, and optimizers stay wrapped for good. So the flag stays as it is, and while this
is started the same places make ranges of ours, which costs a layer's call less. Where the flag is
set, because Paddle's own profiler runs, Paddle's marks become the ranges.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.record.patching import Patches, family
from stepscope.record.phase_ranges import (
    BACKWARD,
    BACKWARD_NAME,
    DATALOADER,
    FORWARD,
    OPTIMIZATION,
    OPTIMIZATION_NAME,
    RANGE_KIND,
    ByClass,
    Outermost,
)
from stepscope.trace.event_types import TracerEventType, event_type_fragment

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = Callable[..., Any]

_UTILS = "paddle.profiler.utils"
_LOADERS = ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess")
_OPEN = "_stepscope_open"  # a RecordEvent's attribute: its ranges that have begun


def phases(holds_slot: Callable[[], bool]) -> Patches:
    """Return the replacements, for an imported paddle.

    ``holds_slot`` tells whether Paddle's collector is ours: it need not have the RecordEvents, too.
    """
    return Patches(functools.partial(_patch, holds_slot))


def _patch(holds_slot: Callable[[], bool], patches: Patches) -> None:
    paddle = sys.modules["paddle"]
    utils = sys.modules[_UTILS]

    def paddle_marks() -> bool:
        return bool(utils._is_profiler_used)

    layer, tensor = paddle.nn.Layer, paddle.Tensor
    patches.wrap(layer, "__call__", ByClass(FORWARD, paddle_marks))
    backward = Outermost(BACKWARD_NAME, BACKWARD, paddle_marks)
    patches.wrap(tensor, "backward", backward)
    patches.wrap(paddle.autograd, "backward", backward)  # Paddle does not mark this one
    loaders = sys.modules.get("paddle.io.dataloader.dataloader_iter")
    for name in _LOADERS:
        if (loader := getattr(loaders, name, None)) is not None:
            patches.wrap(loader, "__next__", ByClass(DATALOADER, paddle_marks))
    _patch_optimizers(patches, paddle.optimizer.Optimizer, paddle_marks)
    _patch_record_event(patches, utils.RecordEvent, holds_slot)


def _patch_optimizers(patches: Patches, base: Any, paddle_marks: Callable[[], bool]) -> None:
    """Wrap what steps where it is defined, also in classes of the user's and those to come."""
    ranged = Outermost(OPTIMIZATION_NAME, OPTIMIZATION, paddle_marks)

    def wrap(optimizer: Any) -> None:
        for name in ("step", "minimize"):  # Model.fit calls the second
            if name in vars(optimizer):
                patches.wrap(optimizer, name, ranged)

    for optimizer in family(base):
        wrap(optimizer)
    patches.on_subclass(base, wrap)


# --- the user's own paddle.profiler.RecordEvent ---


def _patch_record_event(
    patches: Patches, record_event: Any, holds_slot: Callable[[], bool]
) -> None:
    plain_begin, plain_end = record_event.begin, record_event.end

    @functools.wraps(plain_begin)
    def begin(self: Any) -> None:
        if not holds_slot():
            plain_begin(self)
        handle = begin_slice(RANGE_KIND, str(self.name), _fragment_of(self.event_type))
        vars(self).setdefault(_OPEN, []).append(handle)

    @functools.wraps(plain_end)
    def end(self: Any) -> None:
        if started := vars(self).get(_OPEN):
            end_slice(started.pop())
        plain_end(self)

    patches.replace(record_event, "begin", begin)
    patches.replace(record_event, "end", end)


@functools.cache
def _fragment_of(event_type: Any) -> str:
    """Return what tells one of Paddle's event types; a plain range needs nothing."""
    name = getattr(event_type, "name", "")
    if name == TracerEventType.PythonUserDefined.name or name not in TracerEventType.__members__:
        return ""
    return event_type_fragment(TracerEventType[name])
