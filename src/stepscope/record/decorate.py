"""record_function as a decorator."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any

from stepscope._native import record_function

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator


def decorate(scope: record_function, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with the range around every call, also of coroutines and generators."""
    if not callable(function):
        raise TypeError(
            f"record_function({scope.name!r}) decorates a function, not {function!r}; "
            f"for a block write `with record_function({scope.name!r}):`"
        )

    # Calls of a function that can be suspended may end in any order: each has a range of its own.
    def own_range() -> record_function:
        return record_function(scope.name, scope.args)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def around_coroutine(*args: Any, **kwargs: Any) -> Any:
            with own_range():
                return await function(*args, **kwargs)

        return around_coroutine
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def around_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            items = function(*args, **kwargs)
            with own_range(), contextlib.suppress(StopAsyncIteration):
                item = await anext(items)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        await items.aclose()
                        raise
                    except BaseException as error:
                        item = await items.athrow(error)
                    else:
                        item = await items.asend(sent)

        return around_async_generator
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def around_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with own_range():
                return (yield from function(*args, **kwargs))

        return around_generator

    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        with scope:
            return function(*args, **kwargs)

    return around
