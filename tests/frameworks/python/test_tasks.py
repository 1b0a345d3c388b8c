"""Tasks of asyncio as slices: from the first step to the last, and no program notices."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import weakref
from collections import Counter
from typing import Any

import pytest
from request_recording import names_of, recorded, requests_recorded, rows_of

from recording import chain_of, manual_clock, parents, trace_of
from stepscope import record_function
from stepscope._native import advance_clock
from stepscope.trace.model import SliceFlags, SliceKind


async def waits(rounds: int) -> int:
    for _ in range(rounds):
        await asyncio.sleep(0)
        advance_clock(10)
    return rounds


async def fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("no")


async def waits_for_ever() -> None:
    await asyncio.Event().wait()


def test_a_task_is_a_slice_from_its_first_step_to_its_last() -> None:
    async def main() -> None:
        assert await asyncio.gather(*map(asyncio.create_task, (waits(1), waits(3)))) == [1, 3]

    with manual_clock():
        trace = recorded(lambda: asyncio.run(main()))
    tasks = [row for row in rows_of(trace, "task") if trace.name_of(row) == "waits"]
    # One has three rounds, in one of which the other has its own.
    assert sorted(trace.slices.duration_ns[tasks].tolist()) == [10, 40]
    assert set(trace.slices.kind[tasks].tolist()) == {SliceKind.RANGE}
    args = trace.slices.args.of_row(tasks[0], trace.strings)
    assert args == {"File": __file__, "Line": waits.__code__.co_firstlineno}


def test_what_runs_in_a_task_is_in_its_slice_and_in_no_others() -> None:
    async def handler(name: str) -> None:
        for _ in range(3):
            with record_function(name):
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(handler(name) for name in "abc"))

    trace = recorded(lambda: asyncio.run(main()))
    of_handlers = [pair for pair in parents(trace) if pair[0] in "abc"]
    assert len(of_handlers) == 9
    assert {parent for _, parent in of_handlers} == {
        "test_what_runs_in_a_task_is_in_its_slice_and_in_no_others.<locals>.handler"
    }
    around = {name: set() for name in "abc"}  # type: dict[str, set[int]]
    for row in range(len(trace)):
        if trace.name_of(row) in around:
            around[trace.name_of(row)].add(int(trace.slices.parent[row]))
    assert all(len(rows) == 1 for rows in around.values())
    assert len(set.union(*around.values())) == 3


def test_coroutines_that_a_task_awaits_are_none() -> None:
    async def inner() -> None:
        await asyncio.sleep(0)

    async def outer() -> None:
        for _ in range(5):
            await inner()

    names = names_of(recorded(lambda: asyncio.run(outer())), "task")
    assert sum(name.endswith("inner") for name in names) == 0
    assert sum(name.endswith("outer") for name in names) == 1


def test_tasks_that_fail_or_are_cancelled_end() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await asyncio.create_task(fails())
        task = asyncio.create_task(waits_for_ever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        await asyncio.sleep(0)
        with record_function("afterwards"):
            pass

    trace = recorded(lambda: asyncio.run(main()))
    rows = {trace.name_of(row): row for row in rows_of(trace, "task")}
    end_ns = trace.slices.end_ns
    (afterwards,) = (row for row in range(len(trace)) if trace.name_of(row) == "afterwards")
    for name in ("fails", "waits_for_ever"):
        assert not trace.slices.flags[rows[name]] & SliceFlags.UNFINISHED
        assert end_ns[rows[name]] <= trace.slices.start_ns[afterwards]


def test_one_that_still_runs_at_the_end_is_unfinished() -> None:
    loop = asyncio.new_event_loop()
    with requests_recorded() as session:
        task = loop.create_task(waits_for_ever())
        loop.run_until_complete(asyncio.sleep(0))
    trace = trace_of(session)
    (row,) = (row for row in rows_of(trace, "task") if trace.name_of(row) == "waits_for_ever")
    assert trace.slices.flags[row] & SliceFlags.UNFINISHED
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def test_one_that_began_before_the_recording_is_left_out() -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(waits(5))
    loop.run_until_complete(asyncio.sleep(0))
    with requests_recorded() as session:
        assert loop.run_until_complete(task) == 5
    loop.close()
    assert "waits" not in names_of(trace_of(session), "task")


def test_coroutines_that_others_drive_are_no_tasks() -> None:
    async def inner() -> int:
        return 3

    async def outer() -> int:
        return await inner()

    def run() -> None:
        with pytest.raises(StopIteration) as ended:
            outer().send(None)
        assert ended.value.value == 3

    assert not rows_of(recorded(run), "task")


def test_loops_in_threads_have_tasks_of_their_own() -> None:
    import threading

    def run() -> None:
        threads = [threading.Thread(target=lambda: asyncio.run(waits(3))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = recorded(run)
    assert names_of(trace, "task").count("waits") == 4


def test_programs_do_not_notice() -> None:
    seen: list[Any] = []

    async def main() -> None:
        coroutine = waits(2)
        task = asyncio.create_task(coroutine)
        seen.append(
            (
                type(task),
                task.get_coro() is coroutine,
                type(coroutine),
                repr(task).replace(str(id(task)), ""),
                getattr(task, "_callbacks", None),
                asyncio.get_running_loop().get_task_factory(),
                sys.gettrace(),
                sys.getprofile(),
            )
        )
        gone = weakref.ref(task)
        await task
        del task
        gc.collect()
        seen.append(gone() is None)

    asyncio.run(main())
    plain, seen = seen, []
    recorded(lambda: asyncio.run(main()))
    assert [_without_numbers(frame) for frame in seen] == [
        _without_numbers(frame) for frame in plain
    ]


def _without_numbers(value: object) -> str:
    import re

    return re.sub(r"Task-\d+", "Task", str(value))


def test_a_recording_within_another_sees_the_same_and_ends_alone() -> None:
    async def main() -> None:
        await asyncio.create_task(waits(1))
        with requests_recorded() as inner:
            await asyncio.create_task(waits(1))
        assert names_of(trace_of(inner), "task") == ["waits"]
        await asyncio.create_task(waits(1))

    trace = recorded(lambda: asyncio.run(main()))
    assert Counter(names_of(trace, "task"))["waits"] == 3
    for row in rows_of(trace, "task"):
        assert len(chain_of(trace, row)) == 1


def test_a_forked_child_records_nothing() -> None:
    with requests_recorded():
        child = os.fork()
        if not child:
            asyncio.run(waits(2))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks yet")
def test_eager_tasks_are_recorded() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        await asyncio.create_task(waits(0))
        await asyncio.create_task(waits(2))

    assert names_of(recorded(lambda: asyncio.run(main())), "task").count("waits") == 2
