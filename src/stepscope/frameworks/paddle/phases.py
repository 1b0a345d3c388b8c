"""Records the phases of a Paddle program, and its RecordEvents.

Paddle itself marks these phases while its profiler's flag is set; but then every call of a layer
takes a slow path, and optimizers stay wrapped forever. So the flag is left alone, and our ranges
are made in the same places, at a lower cost per layer. If the flag is set because Paddle's own
profiler runs, Paddle's marks become the ranges.

Calls of layers are watched in the interpreter: ``paddle.jit.to_static`` reads the code of
``__call__``, and ours would break its graph.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope._native import begin_slice, end_slice
from stepscope.frameworks.paddle.event_types import TracerEventType, event_type_fragment
from stepscope.frameworks.paddle.modules import PADDLE_LAYERS
from stepscope.record.patching import Patches, family
from stepscope.record.phase_ranges import (
    BACKWARD,
    BACKWARD_NAME,
    DATALOADER,
    FORWARD,
    OPTIMIZATION,
    RANGE_KIND,
    ByClass,
    Outermost,
    never,
)
from stepscope.record.post_import import PostImport
from stepscope.trace.names import PADDLE_OPTIMIZER

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.frameworks.paddle.collector import Collector


_UTILS = "paddle.profiler.utils"
_SOT = "paddle.jit.sot.psdb"
_LOADERS = ("_DataLoaderIterSingleProcess", "_DataLoaderIterMultiProcess")
_OPEN = "_stepscope_open"  # attribute of a RecordEvent: its open ranges


def phases(collector: Collector) -> tuple[Patches, ...]:
    forward = PADDLE_LAYERS.in_phase(FORWARD, _paddle_marks)
    return PADDLE_LAYERS.watched, forward, Patches(functools.partial(_patch, collector))


def _paddle_marks() -> bool:
    return bool(_utils()["_is_profiler_used"])


@functools.cache
def _utils() -> dict[str, Any]:
    """Return the globals of paddle.profiler.utils, even where our module stands in for it."""
    layers: Any = sys.modules.get("paddle.nn.layer.layers")
    used = getattr(layers, "in_profiler_mode", None)
    names: dict[str, Any] = getattr(used, "__globals__", None) or vars(sys.modules[_UTILS])
    return names


def _patch(collector: Collector, patches: Patches) -> None:
    paddle = sys.modules["paddle"]
    backward = Outermost(BACKWARD_NAME, BACKWARD, _paddle_marks)
    patches.wrap(paddle.Tensor, "backward", backward)
    patches.wrap(paddle.autograd, "backward", backward)  # Paddle itself does not mark this one
    loaders = sys.modules.get("paddle.io.dataloader.dataloader_iter")
    for name in _LOADERS:
        if (loader := getattr(loaders, name, None)) is not None:
            patches.wrap(loader, "__next__", ByClass(DATALOADER, _paddle_marks))
    _patch_optimizers(patches, paddle.optimizer.Optimizer)
    _follow_sot(patches)
    _patch_record_event(patches, _utils()["RecordEvent"], collector)


def _patch_optimizers(patches: Patches, base: Any) -> None:
    """Wrap ``step`` and ``minimize`` wherever a class defines them, now or later."""
    ranged = Outermost(PADDLE_OPTIMIZER, OPTIMIZATION, _paddle_marks)

    def wrap(optimizer: Any) -> None:
        for name in ("step", "minimize"):  # Model.fit calls minimize
            if name in vars(optimizer):
                patches.wrap(optimizer, name, ranged)

    for optimizer in family(base):
        wrap(optimizer)
    patches.on_subclass(base, wrap)


# --- the user's own paddle.profiler.RecordEvent ---

# True only where to_static reads the calling code: it then compiles Paddle's version. It is a
# function of Paddle's, which to_static knows, and which Paddle imports when it first compiles.
_in_sot: Callable[[], bool] = never


def _follow_sot(patches: Patches) -> None:
    def note_in_sot(psdb: Any) -> None:
        global _in_sot  # noqa: PLW0603 - to_static reads globals, and there is one Paddle
        _in_sot = getattr(psdb, "in_sot", never)

    if (psdb := sys.modules.get(_SOT)) is not None:
        note_in_sot(psdb)
        return
    hook = PostImport(_SOT, note_in_sot)
    hook.install()
    patches.on_undo(hook.remove)


def _patch_record_event(patches: Patches, record_event: Any, collector: Collector) -> None:
    plain_begin, plain_end = record_event.begin, record_event.end

    @functools.wraps(plain_begin)
    def begin(self: Any) -> None:
        if _in_sot():
            plain_begin(self)
            return
        # Paddle's own range is needed if Paddle collects for another profiler, or is lent ours.
        if collector.is_lent or not collector.holds_slot:
            plain_begin(self)
        if not collector.is_lent:
            handle = begin_slice(RANGE_KIND, str(self.name), _fragment_of(self.event_type))
            vars(self).setdefault(_OPEN, []).append(handle)

    @functools.wraps(plain_end)
    def end(self: Any) -> None:
        if not _in_sot() and (started := vars(self).get(_OPEN)):
            end_slice(started.pop())
        plain_end(self)

    patches.replace(record_event, "begin", begin)
    patches.replace(record_event, "end", end)


@functools.cache
def _fragment_of(event_type: Any) -> str:
    """Return the fragment of one of Paddle's event types; empty for a plain range."""
    name = getattr(event_type, "name", "")
    if name == TracerEventType.PythonUserDefined.name or name not in TracerEventType.__members__:
        return ""
    return event_type_fragment(TracerEventType[name])
