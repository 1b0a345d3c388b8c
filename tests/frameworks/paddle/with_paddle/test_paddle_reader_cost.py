"""The benchmark timer with Paddle's own DataLoader."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from recording import manual_clock
from stepscope._native import advance_clock
from stepscope.paddle import Profiler

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000
if getattr(find_spec("paddle"), "origin", None) is None:
    pytest.skip("Paddle is not installed", allow_module_level=True)
paddle = import_module("paddle")
iterators = import_module("paddle.io.dataloader.dataloader_iter")
CLASSES = (iterators._DataLoaderIterSingleProcess, iterators._DataLoaderIterMultiProcess)


class Items(paddle.io.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> float:
        return float(index)


@pytest.fixture
def loader() -> Any:
    return paddle.io.DataLoader(Items(), batch_size=2, num_workers=0)


@pytest.fixture
def slow_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the loader's own next take 3 ms: it reads ahead, in a thread of its own."""
    plain = CLASSES[0].__next__

    def slow(self: Any) -> Any:
        item = plain(self)
        advance_clock(3 * MS)
        return item

    monkeypatch.setattr(CLASSES[0], "__next__", slow)
    with manual_clock():
        yield


@pytest.mark.usefixtures("slow_reads")
def test_the_reader_cost_of_paddle_is_what_its_loader_takes(loader: Any) -> None:
    with Profiler(timer_only=True) as prof:
        for _ in loader:
            advance_clock(7 * MS)
            prof.step(2)
        info = prof.step_info("images")
    assert info == " reader_cost: 0.00300 s batch_cost: 0.01000 s ips: 200.000 images/s"


@pytest.mark.usefixtures("slow_reads")
def test_an_evaluation_with_another_data_set_is_not_counted(loader: Any) -> None:
    evaluation = paddle.io.DataLoader(Items(), batch_size=1, num_workers=0)
    with Profiler(timer_only=True) as prof:
        for _ in loader:
            advance_clock(7 * MS)
            prof.step(2)
            for _ in evaluation:
                advance_clock(50 * MS)
        info = prof.step_info()
    assert info == " reader_cost: 0.00300 s batch_cost: 0.01000 s ips: 200.000 samples/s"


def test_reads_in_worker_processes_are_timed() -> None:
    loader = paddle.io.DataLoader(Items(), batch_size=2, num_workers=1)
    with Profiler(timer_only=True) as prof:
        for _ in loader:
            prof.step(2)
        assert prof.step_info().startswith(" reader_cost: ")


def test_the_loaders_classes_are_left_as_they_were(loader: Any) -> None:
    before = [vars(cls)["__next__"] for cls in CLASSES]
    with Profiler(on_trace_ready=lambda _: None) as prof:
        assert [vars(cls)["__next__"] for cls in CLASSES] != before
        for _ in loader:
            prof.step(2)
    assert [vars(cls)["__next__"] for cls in CLASSES] == before
