"""Ranges around the handling of requests: what the wrappers for all server libraries share.

A request of one thread may pass through several libraries, a server and a web framework in it. The
first makes the range, and those within only tell a better name. Names are handlers and routes, of
which a program has a bounded number; a request's own path is not a name.
"""

from __future__ import annotations

import _thread
import functools

from stepscope._native import begin_slice, end_slice

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepscope.record.patching import Patches

    Function = Callable[..., Any]
    NameOf = Callable[..., str]  # takes what the wrapped function takes

_REQUEST_KIND = 12  # of the recorder
_MOST_NAMES = 500
OTHER = "other requests"
"""What requests are called when a program has more handlers than anybody reads."""

_names: set[str] = set()


class _Here(_thread._local):
    """The request that this thread handles: its handle, and what it is called so far."""

    handle: object | None = None
    name = ""


_here = _Here()


def bounded(name: str) -> str:
    """Return the name, or OTHER where there are too many."""
    if name in _names:
        return name
    if len(_names) >= _MOST_NAMES:
        return OTHER
    _names.add(name)
    return name


def handled(patches: Patches, name_of: NameOf) -> Callable[[Function], Function]:
    """Return a wrapper for functions that handle a request before they return.

    ``name_of`` is asked afterwards, when the route is known.
    """

    def wrap(plain: Function) -> Function:
        @functools.wraps(plain)
        def handle(*args: Any, **kwargs: Any) -> Any:
            if not patches.in_use:
                return plain(*args, **kwargs)
            is_first = begin_request(plain.__qualname__)
            try:
                return plain(*args, **kwargs)
            finally:
                name_request(_asked(name_of, args, plain))
                if is_first:
                    end_request()

        return handle

    return wrap


def handled_async(patches: Patches, name_of: NameOf) -> Callable[[Function], Function]:
    """Return the same for coroutine functions: the range lasts while they wait, too."""

    def wrap(plain: Function) -> Function:
        @functools.wraps(plain)
        async def handle(*args: Any, **kwargs: Any) -> Any:
            if not patches.in_use:
                return await plain(*args, **kwargs)
            handle = begin_slice(_REQUEST_KIND, plain.__qualname__, "")
            try:
                return await plain(*args, **kwargs)
            finally:
                end_slice(handle, bounded(_asked(name_of, args, plain)))

        return handle

    return wrap


def begin_request(name: str) -> bool:
    """Begin a request of this thread; False if it is within another, which goes on.

    The name is for one that does not end.
    """
    if _here.handle is not None:
        return False
    _here.handle = begin_slice(_REQUEST_KIND, name, "")
    return _here.handle is not None


def name_request(name: str) -> None:
    """Say what the request of this thread is; whoever is further inside knows better."""
    if _here.handle is not None:
        _here.name = _here.name or name


def end_request() -> None:
    """End the request of this thread."""
    handle, name = _here.handle, _here.name
    _here.handle, _here.name = None, ""
    end_slice(handle, bounded(name or OTHER))


def _asked(name_of: NameOf, args: tuple[Any, ...], plain: Function) -> str:
    try:
        return name_of(*args)
    except Exception:  # another release of the library: the request is recorded all the same
        return plain.__qualname__
