"""Coroutines: their own time, their waiting, and what blocks the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from own_truth import book, burn, run_one


async def fetch() -> None:
    with book.part("fetch"):
        burn(10)
    await asyncio.sleep(0.02)
    with book.part("fetch"):
        burn(5)


async def render() -> None:
    with book.part("render"):
        burn(25)
    await asyncio.sleep(0)


async def in_turn() -> None:
    for _ in range(25):
        await fetch()
        await render()


async def together() -> None:
    for _ in range(10):
        await asyncio.gather(*(fetch() for _ in range(5)), render())


async def count() -> AsyncIterator[int]:
    for number in range(60):
        with book.part("count"):
            burn(8)
        await asyncio.sleep(0)
        yield number


async def async_generator() -> None:
    async for _ in count():
        with book.own_part("async_generator"):
            burn(12)


async def block() -> None:
    with book.part("block"):
        burn(5)
        with book.waiting("sleep"):
            time.sleep(0.015)
    await asyncio.sleep(0)


async def blocking() -> None:
    for _ in range(20):
        await asyncio.gather(block(), block(), render())


def in_executor() -> None:
    with book.part("in_executor"):
        burn(20)


async def executor() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(30):
        await loop.run_in_executor(None, in_executor)
        await render()


def callback(times: int, done: asyncio.Future[None]) -> None:
    with book.part("callback"):
        burn(20)
    if times:
        asyncio.get_running_loop().call_soon(callback, times - 1, done)
    else:
        done.set_result(None)


async def callbacks() -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(callback, 40, done)
    await done
    await render()


run_one(
    {
        program.__name__: lambda program=program: asyncio.run(program())
        for program in (in_turn, together, async_generator, blocking, executor, callbacks)
    }
)
