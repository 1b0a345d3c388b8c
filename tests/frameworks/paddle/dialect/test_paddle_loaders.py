"""Reader cost, from the DataLoaders of PyTorch and Paddle; and emit_nvtx."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from recording import manual_clock, run_python
from stepscope import nvtx
from stepscope._native import advance_clock
from stepscope.paddle import Profiler, RecordEvent
from stepscope.record.push_pop import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000
READ_MS, WORK_MS = 3, 7


class Items:
    """A data set that takes 3 ms for an item."""

    def __init__(self, length: int = 4) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> float:
        if index >= self._length:
            raise IndexError(index)
        advance_clock(READ_MS * MS)
        return float(index)


@pytest.fixture
def _time_stands_still() -> Iterator[None]:
    with manual_clock():
        yield


def torch_loader(items: Items) -> Any:
    data = pytest.importorskip("torch.utils.data")
    return data.DataLoader(items, batch_size=2, num_workers=0)


@pytest.mark.usefixtures("_time_stands_still")
def test_the_reader_cost_of_pytorch_is_what_its_loader_takes() -> None:
    loader = torch_loader(Items())
    with Profiler(timer_only=True) as prof:
        for _ in loader:
            advance_clock(WORK_MS * MS)
            prof.step(2)
        info = prof.step_info()
    assert info == " reader_cost: 0.00600 s batch_cost: 0.01300 s ips: 153.846 samples/s"


@pytest.mark.usefixtures("_time_stands_still")
def test_an_evaluation_with_another_data_set_is_not_counted() -> None:
    loader, evaluation = torch_loader(Items()), torch_loader(Items(20))
    with Profiler(timer_only=True) as prof:
        for _ in loader:
            advance_clock(WORK_MS * MS)
            prof.step(2)
            for _ in evaluation:
                advance_clock(MS)
        info = prof.step_info()
    assert info == " reader_cost: 0.00600 s batch_cost: 0.01300 s ips: 153.846 samples/s"


@pytest.mark.usefixtures("_time_stands_still")
def test_a_loader_within_a_data_set_is_waited_for_once() -> None:
    inner = torch_loader(Items(100))

    class Outer(Items):
        def __getitem__(self, index: int) -> float:
            return float(next(iter(inner))[0])

    loader = torch_loader(Outer())
    with Profiler(timer_only=True) as prof:
        for _ in loader:
            advance_clock(WORK_MS * MS)
            prof.step(2)
        info = prof.step_info()
    assert info == " reader_cost: 0.01200 s batch_cost: 0.01900 s ips: 105.263 samples/s"


def test_the_loaders_class_is_left_as_it_was() -> None:
    iterator = pytest.importorskip("torch.utils.data.dataloader")._BaseDataLoaderIter
    plain = vars(iterator)["__next__"]
    first, second = (
        Profiler(timer_only=timer_only, on_trace_ready=print) for timer_only in (True, True)
    )
    first.start()
    assert vars(iterator)["__next__"] is not plain
    second.start()
    first.stop()
    first.stop()
    assert vars(iterator)["__next__"] is not plain
    second.stop()
    assert vars(iterator)["__next__"] is plain


def test_the_loaders_class_is_left_as_it_was_after_recording(tmp_path: Any) -> None:
    iterator = pytest.importorskip("torch.utils.data.dataloader")._BaseDataLoaderIter
    plain = vars(iterator)["__next__"]
    with pytest.raises(OSError, match="disk full"), Profiler(on_trace_ready=_fail):
        pass
    assert vars(iterator)["__next__"] is plain


def _fail(_: Profiler) -> None:
    raise OSError("disk full")


@pytest.mark.slow
def test_a_loader_that_is_imported_later_is_timed_too() -> None:
    pytest.importorskip("torch")
    done = run_python(
        """
        from stepscope.paddle import Profiler
        prof = Profiler(timer_only=True)
        prof.start()
        from torch.utils.data import DataLoader
        for _ in DataLoader([1, 2, 3]):
            prof.step(1)
        print(prof.step_info())
        prof.stop()
        """
    )
    assert re.match(r" reader_cost: \d\.\d{5} s batch_cost", done.stdout), done.stderr


# ---- emit_nvtx


@pytest.fixture
def forwarded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What NVIDIA's tools would be told, in the place of the nvtx package's functions."""
    heard: list[str] = []
    tool = Tool(push=heard.append, pop=lambda: heard.append("pop"), mark=heard.append)
    monkeypatch.setattr("stepscope.frameworks.paddle.dialect.nvtx_ranges.find_tool", lambda: tool)
    return heard


def test_emit_nvtx_forwards_steps_and_ranges(forwarded: list[str]) -> None:
    plain = vars(RecordEvent).get("__enter__")
    with Profiler(emit_nvtx=True, on_trace_ready=lambda _: None) as prof:
        with RecordEvent("block"):
            pass
        prof.step()
        event = RecordEvent("begun")
        event.begin()
        event.end()
    with RecordEvent("after"):
        pass
    assert forwarded == [
        *("ProfileStep#0", "block", "pop", "pop"),
        *("ProfileStep#1", "begun", "pop", "pop"),
    ]
    assert list(prof.trace.names()) == ["ProfileStep#0", "block", "ProfileStep#1", "begun"]
    assert vars(RecordEvent).get("__enter__") is plain


def test_emit_nvtx_alone_forwards_ranges_with_timer_only(forwarded: list[str]) -> None:
    with Profiler(emit_nvtx=True, timer_only=True), RecordEvent("block"):
        pass
    assert forwarded == ["block", "pop"]


def test_without_emit_nvtx_nobody_is_told(forwarded: list[str]) -> None:
    with Profiler(on_trace_ready=lambda _: None), RecordEvent("block"):
        pass
    assert forwarded == []


@pytest.mark.skipif(nvtx.find_tool() is not None, reason="somebody listens here")
def test_emit_nvtx_where_nobody_listens_is_warned_about() -> None:
    with (
        pytest.warns(UserWarning, match="emit_nvtx=True has no effect"),
        Profiler(emit_nvtx=True, on_trace_ready=lambda _: None) as prof,
        RecordEvent("block"),
    ):
        pass
    assert list(prof.trace.names()) == ["ProfileStep#0", "block"]


def test_emit_nvtx_works_with_the_nvtx_package() -> None:
    pytest.importorskip("nvtx")
    if "torch" in sys.modules and nvtx.find_tool() is None:
        pytest.skip("no tool")
    with Profiler(emit_nvtx=True, on_trace_ready=lambda _: None) as prof, RecordEvent("block"):
        pass
    assert list(prof.trace.names()) == ["ProfileStep#0", "block"]
