"""Child processes that record themselves, and become part of their parent's trace."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from recording import chain_of, nothing_left_on, row_of, run_python
from stepscope import MemoryLimit, profile, record_function, schedule
from stepscope._native import now_ns, recording
from stepscope.analysis.calls.launches import captured_nodes
from stepscope.record.source import SOURCES, Source
from stepscope.trace.keys import CAPTURED_NODE
from stepscope.trace.schema import NO_SLICE, Captured, Slices, Track
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, IntColumn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.trace.model import Trace

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: E402

pytestmark = pytest.mark.slow

METHODS = ("fork", "spawn", "forkserver")
BATCHES = 4


@pytest.fixture(autouse=True)
def _nothing_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that no file, no patch and no recording outlives a test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    methods = [getattr(BaseProcess, name) for name in ("start", "terminate", "kill", "run")]
    with nothing_left_on():
        yield
    assert [getattr(BaseProcess, name) for name in ("start", "terminate", "kill", "run")] == methods
    assert not list(tmp_path.glob("stepscope-children-*"))


class Squares(Dataset[Any]):
    """Items are a square, and whether it was recorded."""

    def __len__(self) -> int:
        return 4 * BATCHES

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(float(index)).square(), recording()


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(torch.arange(8.0))


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(Squares(), batch_size=4, **{"num_workers": 2, **options})


def all_recorded(batches: list[Any]) -> bool:
    """Tell whether the workers recorded; all or none of the items were."""
    (answer,) = {bool(is_recorded) for _, recorded in batches for is_recorded in recorded}
    return answer


def processes(trace: Trace) -> dict[str, str]:
    """Return the name of every process that has slices."""
    used = {int(track) for track in trace.slices.track}
    return {trace.tracks[i].pid: trace.tracks[i].process_name for i in used}


def names_in(trace: Trace, process_name: str) -> list[str]:
    """Return the names of a process's slices, in order."""
    return [
        name
        for name, track in zip(trace.names(), trace.slices.track, strict=True)
        if trace.tracks[track].process_name == process_name
    ]


# ---- data loaders


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_data_loader_are_processes_of_the_trace(method: str) -> None:
    with profile(record_workers=True) as profiler:
        batches = list(loader(multiprocessing_context=method))
    assert sum(squares.sum() for squares, _ in batches) == sum(i * i for i in range(4 * BATCHES))
    assert all_recorded(batches)
    trace = profiler.trace
    assert sorted(processes(trace).values()) == [
        "DataLoader worker 0",
        "DataLoader worker 1",
        "python",
    ]
    for worker in ("DataLoader worker 0", "DataLoader worker 1"):
        names = names_in(trace, worker)
        assert names.count("DataLoader fetch: Squares") == BATCHES // 2
        assert names.count("Squares.__getitem__") == names.count("aten::square") == 8
        assert names.count("collate: default_collate") == BATCHES // 2
    assert trace.info.sources["child processes"] == "2 recorded"


def test_what_workers_do_nests_and_lies_in_the_parents_time() -> None:
    with profile(record_workers=True) as profiler:
        list(loader())
    trace = profiler.trace
    rows = [row for row, name in enumerate(trace.names()) if name == "aten::square"]
    assert {chain_of(trace, row)[-3:] for row in rows} == {
        ("aten::square", "Squares.__getitem__", "DataLoader fetch: Squares")
    }
    assert (trace.slices.start_ns[rows] > trace.info.start_ns).all()
    assert (trace.slices.end_ns[rows] < trace.info.end_ns).all()
    # A batch is fetched before the parent's next() for it returns: one clock for all.
    first_fetch = row_of_first(trace, "DataLoader fetch: Squares")
    first_next = row_of_first(trace, "enumerate(DataLoader)")
    assert trace.slices.end_ns[first_fetch] < trace.slices.end_ns[first_next]


def row_of_first(trace: Trace, start: str) -> int:
    return next(row for row, name in enumerate(trace.names()) if name.startswith(start))


def test_threads_of_different_processes_are_never_the_same() -> None:
    with profile(record_workers=True) as profiler:
        list(loader())
    ids = [track.logical_id for track in profiler.trace.tracks]
    assert len(set(ids)) == len(ids) >= 3


def test_nor_are_those_of_a_grandchild_and_of_a_later_child() -> None:
    context = multiprocessing.get_context("fork")
    with profile(record_workers=True) as profiler:
        for target in (work_in_grandchild, work):
            child = context.Process(target=target, args=("a child",))
            child.start()
            child.join()
    ids = [track.logical_id for track in profiler.trace.tracks]
    assert len(set(ids)) == len(ids) == 3


class Replays(Source):
    """Notes one node of a CUDA graph, and the kernel that ran it, under a number of its process."""

    name = "replays"

    def start(self) -> None:
        self._now_ns = now_ns()

    def stop(self) -> None:
        pass

    def collect(self) -> Captured:
        slices = Slices.of(
            category=np.array([1, 2], np.uint32),
            start_ns=self._now_ns + np.arange(2),
            duration_ns=np.ones(2, np.int64),
            track=np.zeros(2, np.uint32),
            args=Args({CAPTURED_NODE: IntColumn(np.arange(2, dtype=np.uint32), np.ones(2, int))}),
        )
        track = Track(str(os.getpid()), "0")
        return Captured(slices, (track,), Strings.of(["", "cuda_graph_node", "kernel"]))


def test_numbers_that_tie_events_do_not_tie_them_across_processes() -> None:
    sources = SOURCES.register(lambda: [Replays])
    try:
        with profile(record_workers=True) as profiler:
            child = multiprocessing.get_context("fork").Process(target=work, args=("worked",))
            child.start()
            child.join()
    finally:
        SOURCES.unregister(sources)
    trace = profiler.trace
    nodes = captured_nodes(trace)
    replayed = np.flatnonzero(nodes != NO_SLICE)
    assert len(replayed) == 2
    assert trace.slices.track[replayed].tolist() == trace.slices.track[nodes[replayed]].tolist()


def test_workers_that_were_started_in_a_step_that_is_not_recorded() -> None:
    """And that live through all cycles: each has what was done in its steps."""
    batches = loader(num_workers=1, persistent_workers=True)
    traces: list[Trace] = []
    steps = schedule(wait=1, warmup=1, active=1, repeat=2)
    with profile(
        schedule=steps, on_trace_ready=lambda p: traces.append(p.trace), record_workers=True
    ) as profiler:
        for step in range(6):
            assert all_recorded(list(batches)) == (step in {2, 5})
            profiler.step()
    assert len(traces) == 2
    for trace in traces:
        assert names_in(trace, "DataLoader worker 0").count("aten::square") == 4 * BATCHES
        assert set(trace.slices.step[trace.slices.step >= 0]) <= {2, 5}
    assert processes(traces[0]) == processes(traces[1])


def test_an_iterable_dataset() -> None:
    with profile(record_workers=True) as profiler:
        list(DataLoader(Stream(), batch_size=4, num_workers=1))
    names = names_in(profiler.trace, "DataLoader worker 0")
    assert names.count("DataLoader fetch: Stream") == 3  # the third finds the end
    assert names.count("Stream.__next__") == 9
    assert names.count("collate: default_collate") == 2


def test_nothing_is_recorded_of_workers_unless_asked() -> None:
    with profile() as profiler:
        assert not all_recorded(list(loader()))
    assert set(processes(profiler.trace).values()) == {"python"}
    assert "DataLoader fetch: Squares" not in list(profiler.trace.names())


def test_a_loader_without_workers_is_marked_in_the_process_itself() -> None:
    with profile(record_workers=True) as profiler:
        list(loader(num_workers=0))
    names = names_in(profiler.trace, "python")
    assert names.count("DataLoader fetch: Squares") == BATCHES
    assert profiler.trace.info.sources["child processes"] == "0 recorded"


def test_the_fetchers_are_left_as_they_were() -> None:
    from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

    before = (_MapDatasetFetcher.fetch, _IterableDatasetFetcher.fetch)
    with profile(record_workers=True), profile(record_workers=True):
        assert _MapDatasetFetcher.fetch is not before[0]
    assert (_MapDatasetFetcher.fetch, _IterableDatasetFetcher.fetch) == before


# ---- any child of multiprocessing


def work(name: str) -> int:
    with record_function(name):
        torch.ones(2).neg()
    return os.getpid()


def work_then_exit(name: str) -> None:
    work(name)
    raise SystemExit(3)


def work_then_wait(name: str, queue: Any) -> None:
    queue.put(work(name))
    signal.pause()


def work_in_grandchild(name: str) -> None:
    child = multiprocessing.get_context("fork").Process(
        target=work, args=(name,), name="grandchild"
    )
    child.start()
    child.join()
    work("the child's own")


class Subclass(multiprocessing.Process):
    def run(self) -> None:
        work("in run()")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_process_records_itself_and_the_parent_collects(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with profile(record_workers=True) as profiler:
        child = context.Process(target=work, args=("in the child",), name="a name")
        child.start()
        child.join()
    trace = profiler.trace
    assert child.exitcode == 0
    assert processes(trace) == {str(child.pid): "a name"}
    assert chain_of(trace, row_of(trace, "aten::neg")) == ("aten::neg", "in the child")


def test_a_process_whose_class_has_its_own_run() -> None:
    with profile(record_workers=True) as profiler:
        child = Subclass()
        child.start()
        child.join()
    assert "in run()" in list(profiler.trace.names())


def test_an_exit_in_the_child_is_honoured() -> None:
    with profile(record_workers=True) as profiler:
        child = multiprocessing.get_context("fork").Process(
            target=work_then_exit, args=("before the exit",)
        )
        child.start()
        child.join()
    assert child.exitcode == 3
    assert "before the exit" in list(profiler.trace.names())


@pytest.mark.parametrize("ending", ["terminate", "kill"])
def test_a_child_that_the_parent_ends_delivers_first(ending: str) -> None:
    context = multiprocessing.get_context("fork")
    with profile(record_workers=True) as profiler:
        queue = context.SimpleQueue()
        child = context.Process(target=work_then_wait, args=("worked", queue))
        child.start()
        queue.get()
        getattr(child, ending)()
        child.join()
    assert child.exitcode == -getattr(signal, {"terminate": "SIGTERM", "kill": "SIGKILL"}[ending])
    assert "worked" in list(profiler.trace.names())


def test_a_child_that_still_runs_at_the_stop_is_in_the_trace() -> None:
    context = multiprocessing.get_context("fork")
    with profile(record_workers=True) as profiler:
        queue = context.SimpleQueue()
        child = context.Process(target=work_then_wait, args=("worked", queue))
        child.start()
        queue.get()
    assert "worked" in list(profiler.trace.names())
    assert child.is_alive()
    child.terminate()
    child.join()


def test_a_child_that_somebody_kills_is_missed_and_counted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    context = multiprocessing.get_context("fork")
    with profile(record_workers=True) as profiler:
        queue = context.SimpleQueue()
        child = context.Process(target=work_then_wait, args=("lost", queue))
        child.start()
        os.kill(queue.get(), signal.SIGKILL)
        child.join()
        work("the parent's")
    assert "the parent's" in list(profiler.trace.names())
    description = profiler.trace.info.sources["child processes"]
    assert description == "0 recorded; 1 ended before they could deliver"
    assert description in capfd.readouterr().err


def test_pools_and_executors() -> None:
    context = multiprocessing.get_context("fork")
    with profile(record_workers=True) as profiler:
        with context.Pool(2) as pool:  # its workers are terminated
            pool.map(work, [f"pool {i}" for i in range(4)], chunksize=1)
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            list(executor.map(work, ["executor 0", "executor 1"]))
    names = set(profiler.trace.names())
    assert {*(f"pool {i}" for i in range(4)), "executor 0", "executor 1"} <= names


def test_children_of_children() -> None:
    with profile(record_workers=True) as profiler:
        child = multiprocessing.get_context("fork").Process(
            target=work_in_grandchild, args=("in the grandchild",), name="child"
        )
        child.start()
        child.join()
    trace = profiler.trace
    assert sorted(processes(trace).values()) == ["child", "grandchild"]
    assert names_in(trace, "grandchild")[0] == "in the grandchild"


def test_two_profilers_at_once_each_get_the_child() -> None:
    with profile(record_workers=True) as outer:
        with profile(record_workers=True) as inner:
            child = multiprocessing.get_context("fork").Process(target=work, args=("worked",))
            child.start()
            child.join()
        later = multiprocessing.get_context("fork").Process(target=work, args=("later",))
        later.start()
        later.join()
    assert [name for name in inner.trace.names() if name[:4] != "aten"] == ["worked"]
    assert [name for name in outer.trace.names() if name[:4] != "aten"] == ["worked", "later"]


def work_a_lot() -> None:
    for _ in range(5_000):
        with record_function("again"):
            pass


def test_what_a_child_cannot_keep_is_counted() -> None:
    with profile(record_workers=True, memory_limit=MemoryLimit(64 * 1024)) as profiler:
        child = multiprocessing.get_context("fork").Process(target=work_a_lot)
        child.start()
        child.join()
    trace = profiler.trace
    recorded = list(trace.names()).count("again")
    assert 0 < recorded < 5_000
    assert trace.info.losses.events == 5_000 - recorded


def test_a_merged_trace_can_be_exported_and_saved(tmp_path: Path) -> None:
    from stepscope import Trace, read_trace

    with profile(record_workers=True) as profiler:
        list(loader())
    profiler.export_chrome_trace(tmp_path / "trace.json")
    profiler.trace.save(tmp_path / "trace.stepscope")
    for back in (read_trace(tmp_path / "trace.json"), Trace.load(tmp_path / "trace.stepscope")):
        assert processes(back) == processes(profiler.trace)
        assert sorted(back.names()) == sorted(profiler.trace.names())


def test_a_program_without_torch() -> None:
    done = run_python(
        """
        import multiprocessing, sys
        from stepscope import profile, record_function
        def work():
            with record_function("in the child"):
                pass
        with profile(record_workers=True) as profiler:
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start()
            child.join()
        assert list(profiler.trace.names()) == ["in the child"]
        assert "torch" not in sys.modules
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
