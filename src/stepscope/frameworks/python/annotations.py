"""Makes ranges that the program gives to NVTX or ITT visible in the trace.

While it is started, the functions of ``torch.cuda.nvtx``, ``torch.profiler.itt`` and the ``nvtx``
package record what they are told, besides what they do. Not seen are functions that were imported
by name (``from nvtx import push_range``) or decorated before, domains' own methods, and ranges that
C++ code gives.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from stepscope.record import push_pop
from stepscope.record.patching import Patch
from stepscope.record.post_import import PostImport
from stepscope.record.push_pop import RangeStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.build import Captured

    _Function = Callable[..., Any]

_TORCH_FACES = ("cuda.nvtx", "profiler.itt")  # below torch; both have the same functions


def forward_annotations() -> Annotations:
    """Return the source that records the program's NVTX and ITT ranges."""
    return Annotations()


class Annotations:
    """NVTX and ITT ranges as a source, of packages that are imported now or later."""

    name = "annotations"

    def __init__(self) -> None:
        """Touch nothing yet."""
        self._installed: list[Patch] = []
        self._hooks = (PostImport("torch", self._install), PostImport("nvtx", self._install))

    def prepare(self) -> None:
        """Nothing here is slow."""

    def start(self) -> None:
        """Record ranges of every package from now on, or from its import on."""
        _open_ranges.forget()
        for name, hook in zip(("torch", "nvtx"), self._hooks, strict=True):
            if (module := sys.modules.get(name)) is None:
                hook.install()
            else:
                self._install(module)

    def stop(self) -> None:
        """Leave all packages as they were."""
        for hook in self._hooks:
            hook.remove()
        while self._installed:
            self._installed.pop().remove()

    def collect(self) -> Captured | None:
        """Return None: the recorder has it all."""
        return None

    def describe(self) -> str:
        """Say what is used."""
        return "the program's NVTX and ITT ranges"

    def overhead_ns(self) -> float:
        """Return 0: the recorder knows the cost of a range."""
        return 0.0

    def _install(self, module: Any) -> None:
        for patch in _patches_of(module):
            patch.install()
            self._installed.append(patch)


class _OpenRanges:
    """The ranges that are open now; those that an earlier recording left open are none of them."""

    def __init__(self) -> None:
        self.stack = RangeStack()

    def forget(self) -> None:
        self.stack = RangeStack()


_open_ranges = _OpenRanges()


@functools.cache
def _patches_of(module: Any) -> tuple[Patch, ...]:
    return tuple(_torch_patches(module) if module.__name__ == "torch" else _nvtx_patches(module))


def _torch_patches(torch: Any) -> Iterator[Patch]:
    for path in _TORCH_FACES:
        face = sys.modules.get(f"{torch.__name__}.{path}")
        if face is not None:
            yield Patch(face, "range_push", _pushing)
            yield Patch(face, "range_pop", _popping)
            yield Patch(face, "mark", _marking)


def _nvtx_patches(nvtx: Any) -> Iterator[Patch]:
    yield Patch(nvtx, "push_range", _pushing)
    yield Patch(nvtx, "pop_range", _popping)
    yield Patch(nvtx, "mark", _marking)
    yield Patch(nvtx.annotate, "__enter__", _entering)
    yield Patch(nvtx.annotate, "__exit__", _popping)
    yield Patch(nvtx.annotate, "__call__", _decorating)


# What the package does comes first, and what it raises is raised: then there is no range.


def _pushing(plain: _Function, patch: Patch) -> _Function:
    @functools.wraps(plain)
    def push(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        if _is_heard(patch):
            _open_ranges.stack.push(_message(args, kwargs))
        return result

    return push


def _popping(plain: _Function, patch: Patch) -> _Function:
    @functools.wraps(plain)
    def pop(*args: Any, **kwargs: Any) -> Any:
        if _is_heard(patch):
            _open_ranges.stack.pop()
        return plain(*args, **kwargs)

    return pop


def _marking(plain: _Function, patch: Patch) -> _Function:
    @functools.wraps(plain)
    def mark(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        if _is_heard(patch):
            push_pop.mark(_message(args, kwargs))
        return result

    return mark


def _entering(plain: _Function, patch: Patch) -> _Function:
    @functools.wraps(plain)
    def enter(self: Any) -> Any:
        result = plain(self)
        if _is_heard(patch):
            _open_ranges.stack.push(_message_of(self))
        return result

    return enter


def _decorating(plain: _Function, patch: Patch) -> _Function:
    @functools.wraps(plain)
    def decorate(self: Any, function: _Function) -> _Function:
        inner = plain(self, function)
        message = _message_of(self) or function.__name__

        @functools.wraps(inner)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            if not patch.is_wanted:
                return inner(*args, **kwargs)
            _open_ranges.stack.push(message)
            try:
                return inner(*args, **kwargs)
            finally:
                _open_ranges.stack.pop()

        return annotated

    return decorate


def _is_heard(patch: Patch) -> bool:
    """Tell whether to record: not what stepscope.nvtx and stepscope.itt recorded themselves."""
    return patch.is_wanted and not push_pop.is_telling()


def _message_of(annotation: Any) -> str:
    """Return the message of an ``nvtx.annotate``; a release that keeps it elsewhere gets none."""
    return str(getattr(annotation, "init_args", ("",))[0] or "")


def _message(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return what a range is called: the first argument, whatever its name is."""
    message = args[0] if args else kwargs.get("msg", kwargs.get("message"))
    return "" if message is None else str(message)
