"""Records the ranges that the program passes to NVTX or ITT.

While recording, the functions of ``torch.cuda.nvtx``, ``torch.profiler.itt`` and the ``nvtx``
package also record their ranges. This misses functions that were imported by name (``from nvtx
import push_range``) or used as decorators before, methods of domains, and ranges from C++.
"""

from __future__ import annotations

import functools
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope.frameworks.python.options import ANNOTATIONS
from stepscope.record import push_pop
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.push_pop import RangeStack
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = Callable[..., Any]

_TORCH_FACES = ("cuda.nvtx", "profiler.itt")  # submodules of torch with the same functions


class Annotations(Source):
    name = "annotations"
    when = ANNOTATIONS

    def __init__(self) -> None:
        self._patches = (PatchesWhenImported("torch", _torch), PatchesWhenImported("nvtx", _nvtx))

    def start(self) -> None:
        _open_ranges.forget()
        for patches in self._patches:
            patches.start()

    def stop(self) -> None:
        for patches in self._patches:
            patches.stop()

    def describe(self) -> str:
        return "the program's NVTX and ITT ranges"


class _OpenRanges:
    """The ranges that are open now, without those that an earlier recording left open."""

    def __init__(self) -> None:
        self.stack = RangeStack()

    def forget(self) -> None:
        self.stack = RangeStack()


_open_ranges = _OpenRanges()


def _patch_torch(patches: Patches) -> None:
    for path in _TORCH_FACES:
        if (face := sys.modules.get(f"torch.{path}")) is not None:
            patches.wrap(face, "range_push", partial(_pushing, patches))
            patches.wrap(face, "range_pop", partial(_popping, patches))
            patches.wrap(face, "mark", partial(_marking, patches))


def _patch_nvtx(patches: Patches) -> None:
    nvtx = sys.modules["nvtx"]
    patches.wrap(nvtx, "push_range", partial(_pushing, patches))
    patches.wrap(nvtx, "pop_range", partial(_popping, patches))
    patches.wrap(nvtx, "mark", partial(_marking, patches))
    patches.wrap(nvtx.annotate, "__enter__", partial(_entering, patches))
    patches.wrap(nvtx.annotate, "__exit__", partial(_popping, patches))
    patches.wrap(nvtx.annotate, "__call__", partial(_decorating, patches))


_torch, _nvtx = Patches(_patch_torch), Patches(_patch_nvtx)


# The package's own function runs first; if it raises, there is no range.


def _pushing(patches: Patches, plain: _Function) -> _Function:
    @functools.wraps(plain)
    def push(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        if _should_record(patches):
            _open_ranges.stack.push(_message(args, kwargs))
        return result

    return push


def _popping(patches: Patches, plain: _Function) -> _Function:
    @functools.wraps(plain)
    def pop(*args: Any, **kwargs: Any) -> Any:
        if _should_record(patches):
            _open_ranges.stack.pop()
        return plain(*args, **kwargs)

    return pop


def _marking(patches: Patches, plain: _Function) -> _Function:
    @functools.wraps(plain)
    def mark(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        if _should_record(patches):
            push_pop.mark(_message(args, kwargs))
        return result

    return mark


def _entering(patches: Patches, plain: _Function) -> _Function:
    @functools.wraps(plain)
    def enter(self: Any) -> Any:
        result = plain(self)
        if _should_record(patches):
            _open_ranges.stack.push(_message_of(self))
        return result

    return enter


def _decorating(patches: Patches, plain: _Function) -> _Function:
    @functools.wraps(plain)
    def decorate(self: Any, function: _Function) -> _Function:
        inner = plain(self, function)
        message = _message_of(self) or function.__name__

        @functools.wraps(inner)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            if not patches.in_use:
                return inner(*args, **kwargs)
            _open_ranges.stack.push(message)
            try:
                return inner(*args, **kwargs)
            finally:
                _open_ranges.stack.pop()

        return annotated

    return decorate


def _should_record(patches: Patches) -> bool:
    """Tell whether to record: stepscope.nvtx and stepscope.itt record their own ranges."""
    return patches.in_use and not push_pop.is_telling()


def _message_of(annotation: Any) -> str:
    """Return the message of an ``nvtx.annotate``; empty for a release that keeps it elsewhere."""
    return str(getattr(annotation, "init_args", ("",))[0] or "")


def _message(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the name of a range: the first argument, however the parameter is called."""
    message = args[0] if args else kwargs.get("msg", kwargs.get("message"))
    return "" if message is None else str(message)
