"""Processes that fork, and those that multiprocessing starts."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recording import nothing_left_on, ranges_recorded, run_in_threads, trace_of
from stepscope import Session, _native, profile, record_function
from stepscope._native import recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield


def in_a_fork(check: Callable[[], None]) -> None:
    """Fork, check in the child, and fail here when the child does."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_is_clean_and_can_itself_record() -> None:
    def check() -> None:
        assert not recording()
        assert not session.recording
        with ranges_recorded() as own, record_function("child's"):
            pass
        trace = trace_of(own)
        assert list(trace.names()) == ["child's"]
        assert trace.info.pid == os.getpid()
        assert trace.tracks[0].pid == str(os.getpid())
        assert trace.tracks[0].tid == str(os.getpid())

    with ranges_recorded() as session:
        with record_function("before"):
            pass
        in_a_fork(check)
        with record_function("after"):
            pass
    assert list(trace_of(session).names()) == ["before", "after"]


def test_a_fork_inside_a_range_leaves_it_to_the_parent() -> None:
    scope = record_function("around")

    def check() -> None:
        scope.__exit__()
        with ranges_recorded() as own, scope:
            pass
        assert list(trace_of(own).names()) == ["around"]

    with ranges_recorded() as session, scope:
        in_a_fork(check)
    assert list(trace_of(session).names()) == ["around"]
    assert trace_of(session).slices.flags.tolist() == [0]


def test_the_parents_session_does_nothing_in_the_child() -> None:
    delivered: list[int] = []

    def check() -> None:
        session.step()
        session.stop()
        assert delivered == []
        assert session.trace is None
        session.start()  # the child may use it for itself
        with record_function("child's"):
            pass
        session.stop()
        assert list(trace_of(session).names()) == ["child's"]

    session = Session([], on_trace=lambda: delivered.append(1))
    session.start()
    in_a_fork(check)
    session.stop()
    assert delivered == [1]


@contextlib.contextmanager
def two_threads_at(work: Callable[[], object]) -> Iterator[None]:
    """Have two threads do it again and again, each once before anything else is done.

    In its first operator a thread takes a lock of torch's, which a child that is forked meanwhile
    would wait for.
    """
    finished = threading.Event()
    under_way = threading.Barrier(3)

    def keep_on() -> None:
        work()
        under_way.wait()
        while not finished.is_set():
            work()

    threads = [threading.Thread(target=keep_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    under_way.wait()
    try:
        yield
    finally:
        finished.set()
        for thread in threads:
            thread.join()


def test_forks_while_other_threads_record() -> None:
    def work() -> None:
        with record_function("busy"):
            pass

    def check() -> None:
        with ranges_recorded() as own:
            run_in_threads(2, lambda i: record_function(f"{i}").__enter__().__exit__())
        assert sorted(trace_of(own).names()) == ["0", "1"]

    with ranges_recorded() as session, two_threads_at(work):
        for _ in range(10):
            in_a_fork(check)
    assert set(trace_of(session).names()) == {"busy"}


def test_a_fork_while_torch_is_recorded() -> None:
    torch = pytest.importorskip("torch")
    one = torch.ones(1)

    def check() -> None:
        one.neg()
        assert not recording()
        with profile() as own:
            one.sign()
        assert [e.name for e in own.events()] == ["aten::sign"]
        with pytest.raises(AssertionError):
            profiler.events()

    with profile() as profiler:
        one.neg()
        in_a_fork(check)
        one.exp()
    assert [e.name for e in profiler.events()] == ["aten::neg", "aten::exp"]


def test_forks_while_other_threads_note_tensors() -> None:
    torch = pytest.importorskip("torch")
    shared = torch.ones(2)

    def check() -> None:
        with profile(record_shapes=True, profile_memory=True) as own:
            torch.ones(2).neg()
        assert "aten::neg" in {event.name for event in own.events()}

    with profile(record_shapes=True, profile_memory=True), two_threads_at(lambda: shared.add_(1)):
        for _ in range(20):
            in_a_fork(check)


def _child_of_multiprocessing(queue: Any) -> None:
    with ranges_recorded() as session, record_function("in the worker"):
        pass
    queue.put((recording(), list(trace_of(session).names())))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method: str) -> None:
    context = multiprocessing.get_context(method)
    with ranges_recorded() as session:
        with record_function("before"):
            pass
        queue = context.SimpleQueue()
        worker = context.Process(target=_child_of_multiprocessing, args=(queue,))
        worker.start()
        assert queue.get() == (False, ["in the worker"])
        worker.join()
        assert worker.exitcode == 0
    assert list(trace_of(session).names()) == ["before"]


def test_data_loader_workers_do_not_disturb() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    with profile() as profiler:
        batches = DataLoader(torch.arange(8.0), batch_size=4, num_workers=1)  # type: ignore[arg-type]
        assert [batch.sum().item() for batch in batches] == [6, 22]
    names = [e.name for e in profiler.events()]
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert names.count(loader) == 3


def test_code_that_comes_and_goes_in_a_child_is_told_apart() -> None:
    def noted(number: int) -> None:
        _native.note_graph_node(number)
        _native.note_graph_clone(number, number)

    def check() -> None:
        numbers = list(range(1, 101))
        addresses = set()
        for number in numbers:
            made = noted.__code__.replace(co_qualname=f"made_{number}")
            addresses.add(id(made))
            FunctionType(made, globals())(number)
            del made
        nodes = _native.graph_nodes(np.array(numbers))
        stacks = nodes["stack"][nodes["row"]].tolist()
        names = [nodes["texts"][int(nodes["frame"][stack])] for stack in stacks]
        assert [name.rpartition("_")[2] for name in names] == [str(item) for item in numbers]
        assert len(addresses) < len(numbers)  # else it shows nothing

    noted(1)  # the parent has copies of code already
    in_a_fork(check)


def test_calls_are_noted_on_the_threads_of_the_child() -> None:
    def note() -> int:
        notes.note(_native.now_ns(), notes.signature(0, (), {}))
        return int(notes.noted()[0][-4])

    def check() -> None:
        assert note() == threading.get_native_id()

    notes = _native.CallNotes(int)
    assert note() == threading.get_native_id()
    in_a_fork(check)
