"""Threads that come and go."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recording import (
    chain_of,
    nothing_left_on,
    ranges_recorded,
    row_of,
    run_in_threads,
    run_python,
    thread_of,
    trace_of,
    turns_taken_often,
)
from stepscope import profile, record_function
from stepscope.record.threads import thread_names

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield


def test_sixty_four_threads_at_once_lose_nothing() -> None:
    together = threading.Barrier(64)

    def work(i: int) -> None:
        together.wait()
        for _ in range(200):
            with record_function(f"outer {i}"), record_function(f"inner {i}"):
                pass

    with ranges_recorded() as session:
        run_in_threads(64, work)
    trace = trace_of(session)
    assert len(trace) == 64 * 200 * 2
    assert len({track.tid for track in trace.tracks}) == len(trace.tracks) == 64
    inner = np.flatnonzero(trace.slices.parent >= 0)
    assert len(inner) == 64 * 200
    for row in inner[::97]:
        name = trace.name_of(row)
        assert chain_of(trace, row) == (name, name.replace("inner", "outer"))
    assert (trace.slices.track[inner] == trace.slices.track[trace.slices.parent[inner]]).all()


def test_threads_that_end_are_followed_by_new_ones() -> None:
    with ranges_recorded() as session:
        for round_number in range(20):
            run_in_threads(4, lambda i: record_function(f"{i}").__enter__().__exit__())
            with record_function(f"main {round_number}"):
                pass
    names = list(trace_of(session).names())
    assert [names.count(f"{i}") for i in range(4)] == [20] * 4
    assert sum(name.startswith("main") for name in names) == 20
    assert trace_of(session).slices.flags.sum() == 0


def test_a_thread_that_outlives_several_recordings_is_in_each() -> None:
    turn, done = threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        for i in range(5):
            turn.acquire()
            with record_function(f"round {i}"):
                pass
            done.release()

    worker = threading.Thread(target=work, name="the worker")
    worker.start()
    for i in range(5):
        with ranges_recorded() as session:
            turn.release()
            done.acquire()
        trace = trace_of(session)
        assert list(trace.names()) == [f"round {i}"]
        assert thread_of(trace, 0) == "the worker"
    worker.join()


@pytest.mark.slow
@turns_taken_often()
def test_recordings_may_begin_and_end_while_threads_are_busy() -> None:
    """What is between a start and a stop is whole, whenever they happen."""
    finished = threading.Event()

    def work(i: int) -> None:
        while not finished.is_set():
            with record_function(f"outer {i}"), record_function(f"inner {i}"):
                pass

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            with ranges_recorded() as outer, ranges_recorded() as inner, record_function("main"):
                pass
            for session in (outer, inner):
                trace = trace_of(session)
                slices = trace.slices
                assert list(trace.names()).count("main") == 1
                assert (slices.start_ns >= trace.info.start_ns).all()
                assert (slices.duration_ns >= 0).all()
                pairs = set(zip(slices.track.tolist(), slices.start_ns.tolist(), strict=True))
                assert len(pairs) >= len(trace) - 8  # none twice; two may share a tick
    finally:
        finished.set()
        for thread in threads:
            thread.join()


def test_threads_are_called_by_their_names() -> None:
    go, entered = threading.Event(), threading.Event()

    def work() -> None:
        with record_function("long"):
            entered.set()
            go.wait()

    worker = threading.Thread(target=work, name="a 名 with\nall sorts")
    with ranges_recorded() as session:
        worker.start()
        entered.wait()
        with record_function("main's"):
            pass
    go.set()
    worker.join()
    trace = trace_of(session)
    assert thread_of(trace, row_of(trace, "long")) == "a 名 with\nall sorts"
    assert thread_of(trace, row_of(trace, "main's")) == "MainThread"
    main = trace.tracks[trace.slices.track[row_of(trace, "main's")]]
    assert (main.pid, main.tid) == (str(os.getpid()), str(threading.get_native_id()))


def test_a_thread_that_ended_before_the_stop_keeps_its_name() -> None:
    with ranges_recorded() as session:
        run_in_threads(3, lambda i: record_function(f"in t{i}").__enter__().__exit__())
    trace = trace_of(session)
    assert {trace.name_of(row): thread_of(trace, row) for row in range(3)} == {
        f"in t{i}": f"t{i}" for i in range(3)
    }


def test_a_thread_may_end_with_its_range_open() -> None:
    remaining: list[record_function] = []

    def work(_: int) -> None:
        remaining.append(record_function("left open"))
        remaining[0].__enter__()

    with ranges_recorded() as session:
        run_in_threads(1, work)
    assert list(trace_of(session).names()) == ["left open"]
    remaining[0].__exit__()


def test_user_threads_and_autograd_threads_are_all_there() -> None:
    torch = pytest.importorskip("torch")

    def work(_: int) -> None:
        weight = torch.ones(2, 2, requires_grad=True)
        with record_function("forward"):
            loss = (weight @ weight).sum()
        with record_function("backward"):
            loss.backward()

    with profile() as profiler:
        run_in_threads(3, work)
        work(0)
    trace = profiler.trace
    rows = [row for row, name in enumerate(trace.names()) if name == "MmBackward0"]
    assert len(rows) == 4
    assert len({int(trace.slices.track[row]) for row in rows}) == 4
    for row in rows:  # on a CPU the calling thread runs its own backward
        assert chain_of(trace, row)[-1] == "backward"
        track = trace.tracks[trace.slices.track[row]]
        assert trace.slices.forward_thread[row] == track.logical_id


def test_a_backward_of_another_threads_forward_names_that_thread() -> None:
    torch = pytest.importorskip("torch")
    made: list[Any] = []
    with profile() as profiler:
        run_in_threads(1, lambda _: made.append(torch.ones(2, requires_grad=True).exp().sum()))
        made[0].backward()
    trace = profiler.trace
    forward, backward = row_of(trace, "aten::exp"), row_of(trace, "ExpBackward0")
    assert trace.slices.track[forward] != trace.slices.track[backward]
    assert (
        trace.slices.forward_thread[backward]
        == trace.tracks[trace.slices.track[forward]].logical_id
    )
    assert trace.slices.sequence[forward] == trace.slices.sequence[backward]


def test_tensors_are_noted_while_others_ask_for_them() -> None:
    torch = pytest.importorskip("torch")
    additions = 2_000

    def work(_: int) -> None:
        mine = torch.ones(2)
        for _ in range(additions):
            mine.add_(1)

    with profile(record_shapes=True, profile_memory=True) as outer:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            with profile(record_shapes=True, profile_memory=True):
                pass
    noted = Counter(
        event.extra_fields.inputs[0].id
        for event in outer.profiler.kineto_results.experimental_event_tree()
        if event.name == "aten::add_"
    )
    assert sorted(noted.values()) == [additions] * 4


# ---- the end of the program


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "import os; os._exit(0)"])
def test_a_program_may_end_while_it_records(ending: str) -> None:
    done = run_python(
        f"""
        import threading
        from stepscope import profile, record_function
        p = profile()
        p.start()
        scope = record_function("open")
        scope.__enter__()
        def forever():
            while True:
                with record_function("busy"):
                    pass
        threading.Thread(target=forever, daemon=True).start()
        {ending}
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threading_is_left_as_it_was_found() -> None:
    start = threading.Thread.start
    with ranges_recorded():
        assert threading.Thread.start is not start
    assert threading.Thread.start is start


def test_threads_that_have_ended_keep_their_names_and_nothing_else() -> None:
    def rename() -> None:
        threading.current_thread().name = "renamed"

    with ranges_recorded():
        living = threading.Event()
        threading.Thread(target=living.wait, name="living").start()
        ended = [threading.Thread(target=rename) for _ in range(2000)]
        remaining = weakref.WeakSet(ended)
        for thread in ended:
            thread.start()
            thread.join()
        del ended, thread
        assert len(remaining) < 2000
        names = Counter(thread_names().values())
        living.set()
    assert names["living"] == 1
    assert names["renamed"] > 0
