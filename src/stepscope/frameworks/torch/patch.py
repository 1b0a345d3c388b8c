"""Lets code that uses torch.profiler record through Stepscope without a change.

torch's classes stay the same objects wherever a program holds them: only their ``__init__`` is
replaced. It gives the new object a class that derives from Stepscope's profiler first and from
torch's second. So ``isinstance`` and subclasses, also existing ones, keep working.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from inspect import signature
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.notices import notify, warn_user
from stepscope.record.post_import import PostImport

if TYPE_CHECKING:
    from collections.abc import Callable

_lock = threading.RLock()
_depth = 0
_originals: dict[type, Callable[..., None]] = {}  # by class: the ``__init__`` that was replaced


class _Patch:
    """Undoes one patch_torch() at the end of its block."""

    def __enter__(self) -> None:
        """Do nothing: the patch is already in force."""

    def __exit__(self, *_: object) -> None:
        unpatch_torch()


def patch_torch() -> _Patch:
    """Make every torch profiler that is created from now on record through Stepscope.

    This affects ``torch.profiler.profile`` and ``torch.autograd.profiler.profile``. Call
    unpatch_torch() as often as this, or write ``with patch_torch():``. If torch is not imported
    yet, it is patched when it is.
    """
    global _depth  # noqa: PLW0603 - torch is one for the process, too
    with _lock:
        _depth += 1
        if _depth == 1:
            if "torch" in sys.modules:
                _apply()
            else:
                _hook.install()
    return _Patch()


def unpatch_torch() -> None:
    """Undo one patch_torch(); the last call restores torch, and further calls do nothing.

    Profilers that were created in between keep recording through Stepscope.
    """
    global _depth  # noqa: PLW0603
    with _lock:
        if _depth == 0:
            return
        _depth -= 1
        if _depth == 0:
            _hook.remove()
            if _originals:
                from stepscope.frameworks.torch.switches import FOLLOWED

                FOLLOWED.release()
            while _originals:
                cls, init = _originals.popitem()
                cls.__init__ = init  # type: ignore[misc]


def _apply(_torch: object = None) -> None:
    import torch.autograd.profiler
    import torch.profiler.profiler

    from stepscope.frameworks.torch.dialect import legacy, lowlevel
    from stepscope.frameworks.torch.dialect.profile import profile
    from stepscope.frameworks.torch.switches import FOLLOWED

    with _lock:
        if _depth == 0:
            return
        FOLLOWED.acquire()
        _name_stand_ins()
        _replace_init(torch.profiler.profiler.profile, profile)
        _replace_init(torch.profiler.profiler._KinetoProfile, lowlevel.LowLevelProfile)
        _replace_init(torch.autograd.profiler.profile, legacy.profile)


_hook = PostImport("torch", _apply)
_OF_BOTH = ("__enter__", "__exit__", "start", "stop", "step")


@functools.cache
def _name_stand_ins() -> None:
    """Show calls of our functions under the names of torch's; needs torch."""
    from torch.profiler import profiler as theirs

    from stepscope.frameworks.torch.dialect import lowlevel
    from stepscope.frameworks.torch.dialect import profile as ours
    from stepscope.record.recorder import Recorder
    from stepscope.record.session import Session

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


def _replace_init(theirs: type, ours: type) -> None:
    original = vars(theirs)["__init__"]
    our_init = vars(ours)["__init__"]

    @functools.wraps(original)  # some callers look at the signature
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # A profiler of torch's from before the patch makes its inner one.
        if sys._getframe(1).f_globals.get("__name__") == "torch.profiler.profiler":
            original(self, *args, **kwargs)
            return
        try:
            self.__class__ = _recording_class(self.__class__, theirs, ours)
        except TypeError as error:  # the program's own metaclass or slots
            notify(f"{type(self).__name__} records with torch's own profiler: {error}")
            original(self, *args, **kwargs)
            return
        our_init(self, *args, **kwargs)

    _originals[theirs] = original
    theirs.__init__ = init  # type: ignore[misc]


@functools.cache
def _recording_class(cls: type, theirs: Any, ours: type) -> type:
    """Return ``cls`` with our methods before torch's, and after those of a subclass."""
    if issubclass(cls, ours):
        return cls
    bases = (ours, theirs) if cls is theirs else (cls, _recording_class(theirs, theirs, ours))
    attributes: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_in_place_of_torch": True,
    }
    original: Any = theirs
    parameters = signature(original.key_averages).parameters
    if cls is theirs and "include_python_functions" not in parameters:
        attributes["key_averages"] = _with_python_functions(ours)
    if cls is theirs and hasattr(original, "export_memory_timeline"):
        attributes["export_memory_timeline"] = _timeline_of_torch(original, ours)
    return type(cls.__name__, bases, attributes)


def _timeline_of_torch(theirs: Any, ours: Any) -> Callable[..., None]:
    """Return torch's own export of our recording; pages are ours, as theirs need matplotlib."""

    @functools.wraps(theirs.export_memory_timeline)
    def export_memory_timeline(
        self: Any, path: str | os.PathLike[str], device: str | None = None
    ) -> None:
        path = os.fspath(path)
        if path.endswith(".html"):
            if reason := getattr(theirs.export_memory_timeline, "__deprecated__", None):
                warn_user(reason, FutureWarning)
            self._memory_profile()  # raises the errors that torch raises
            ours.export_memory_timeline(self, path, device)
        else:
            theirs.export_memory_timeline(self, path, device)

    return export_memory_timeline


def _with_python_functions(ours: Any) -> Callable[..., Any]:
    """Return key_averages() as in torch up to 2.14: calls of Python functions count."""

    @functools.wraps(ours.key_averages)
    def key_averages(
        self: Any,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = True,
    ) -> Any:
        grouping = (group_by_input_shape, group_by_stack_n, group_by_overload_name)
        return ours.key_averages(self, *grouping, include_python_functions)

    return key_averages
