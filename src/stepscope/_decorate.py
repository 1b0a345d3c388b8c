"""record_function as a decorator."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    from stepscope._native import record_function


def decorate(scope: record_function, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with the range around every call, also of coroutines and generators."""
    if not callable(function):
        raise TypeError(
            f"record_function({scope.name!r}) decorates a function, not {function!r}; "
            f"for a block write `with record_function({scope.name!r}):`"
        )
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def around_coroutine(*args: Any, **kwargs: Any) -> Any:
            with scope:
                return await function(*args, **kwargs)

        return around_coroutine
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def around_async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with scope:
                async for item in function(*args, **kwargs):
                    yield item

        return around_async_generator
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def around_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with scope:
                return (yield from function(*args, **kwargs))

        return around_generator

    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        with scope:
            return function(*args, **kwargs)

    return around
