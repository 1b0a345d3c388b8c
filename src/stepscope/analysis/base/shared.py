"""Expensive analyses, computed once while several tables are built from one trace.

Analyses are pure functions of a Trace. Within ``shared_analyses()`` those that are marked as
``shared`` return what they returned for the same arguments before. Outside of it nothing is kept:
a table that somebody asks for does not hold on to memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

Results = dict[tuple[Any, ...], tuple[tuple[Any, ...], Any]]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_results: ContextVar[Results | None] = ContextVar("_results", default=None)


@contextmanager
def shared_analyses() -> Iterator[None]:
    """Cache the results of shared analyses until the outermost such block ends."""
    if _results.get() is not None:
        yield
        return
    token = _results.set({})
    try:
        yield
    finally:
        _results.reset(token)


def shared(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Mark an analysis that several others build on; callers must not modify its result."""

    @functools.wraps(function)
    def once(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        results = _results.get()
        if results is None:
            return function(*args, **kwargs)
        given = (*args, *kwargs.values())
        key = (function, len(args), *kwargs, *map(_identity, given))
        if key not in results:
            results[key] = given, function(*args, **kwargs)
        result: _R = results[key][1]
        return result

    return once


def both(one: Callable[[], _R], other: Callable[[], _R]) -> tuple[_R, _R]:
    """Return the results of two functions that run at the same time; NumPy releases the GIL.

    Both share what is cached here; of what both compute, one result stays.
    """
    from concurrent.futures import ThreadPoolExecutor

    try:
        pool = ThreadPoolExecutor(1, "stepscope-analysis")
        pending = pool.submit(copy_context().run, other)
    except RuntimeError:  # the interpreter is shutting down and starts no more threads
        return one(), other()
    with pool:
        return one(), pending.result()


def _identity(argument: Any) -> Any:
    simple = isinstance(argument, bool | int | str | tuple | frozenset) or argument is None
    return argument if simple else id(argument)
