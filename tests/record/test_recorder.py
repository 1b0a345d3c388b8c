"""The recorder: exact times, windows, and what a bound on memory keeps."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recording import (
    chain_of,
    manual_clock,
    nothing_left_on,
    parents,
    ranges_recorded,
    row_of,
    thread_of,
    trace_of,
)
from stepscope import Keep, MemoryLimit, record_function
from stepscope._native import advance_clock, recording
from stepscope.record.limits import RECORD_BYTES
from stepscope.record.window import Window
from stepscope.torch import EventList
from stepscope.trace.model import SliceFlags, SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALLEST = 64 * 1024


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield


# ---- times


def test_start_duration_and_self_time_are_exact() -> None:
    with manual_clock(start_ns=1_000), ranges_recorded() as session, record_function("outer"):
        advance_clock(10)
        with record_function("first"):
            advance_clock(200)
        with record_function("second"):
            advance_clock(3_000)
            with record_function("inside second"):
                advance_clock(40_000)
        advance_clock(5)
    trace = trace_of(session)
    slices = trace.slices
    assert list(trace.names()) == ["outer", "first", "second", "inside second"]
    assert slices.start_ns.tolist() == [1_000, 1_010, 1_210, 4_210]
    assert slices.duration_ns.tolist() == [43_215, 200, 43_000, 40_000]
    assert slices.self_ns.tolist() == [15, 200, 3_000, 40_000]
    assert slices.parent.tolist() == [-1, 0, 0, 2]
    assert slices.depth.tolist() == [0, 1, 1, 2]
    assert slices.kind.tolist() == [SliceKind.RANGE] * 4
    assert (trace.info.start_ns, trace.info.end_ns) == (1_000, 44_215)


def test_each_begin_and_end_reads_the_clock_once() -> None:
    with manual_clock(tick_ns=10), ranges_recorded() as session:
        with record_function("a"), record_function("b"):
            pass
        with record_function("c"):
            pass
    slices = trace_of(session).slices
    assert (slices.start_ns - slices.start_ns[0]).tolist() == [0, 10, 40]
    assert slices.duration_ns.tolist() == [30, 10, 10]


def test_ranges_of_no_length_keep_their_nesting_and_order() -> None:
    with manual_clock(), ranges_recorded() as session:
        for name in ("a", "b"):
            with record_function(name), record_function(f"in {name}"):
                pass
    trace = trace_of(session)
    assert list(trace.names()) == ["a", "in a", "b", "in b"]
    assert trace.slices.duration_ns.tolist() == [0, 0, 0, 0]


def test_a_million_nanoseconds_on_the_real_clock_stay_in_order() -> None:
    """The hot path's counter, turned to ns, never runs backwards or out of its parent."""
    with ranges_recorded() as session:
        for _ in range(2_000):
            with record_function("outer"), record_function("inner"):
                pass
    slices = trace_of(session).slices
    assert (np.diff(slices.start_ns) >= 0).all()
    assert (slices.duration_ns >= 0).all()
    outer, inner = slices.end_ns[0::2], slices.end_ns[1::2]
    assert (inner <= outer).all()
    info = trace_of(session).info
    assert info.start_ns <= slices.start_ns[0]
    assert slices.end_ns.max() <= info.end_ns


def test_a_step_knows_what_happened_in_it() -> None:
    from stepscope import schedule

    with (
        manual_clock(),
        ranges_recorded(schedule=schedule(wait=0, warmup=1, active=2, repeat=1)) as session,
    ):
        for name in ("warm-up", "x", "y"):
            with record_function(name):
                advance_clock(10)
            session.step()
    trace = trace_of(session)
    steps = dict(zip(trace.names(), trace.slices.step.tolist(), strict=True))
    assert steps == {"ProfilerStep#1": 1, "x": 1, "ProfilerStep#2": 2, "y": 2}


# ---- windows


def test_windows_that_overlap_each_see_what_began_in_them() -> None:
    with manual_clock(tick_ns=1):
        first = Window()
        with record_function("only first"):
            pass
        second = Window()
        with record_function("both"):
            pass
        seen_by_first = first.close().captured
        with record_function("only second"):
            pass
        seen_by_second = second.close().captured
    names = [
        [part.strings[i] for i in part.slices.name] for part in (seen_by_first, seen_by_second)
    ]
    assert names == [["only first", "both"], ["both", "only second"]]
    assert not recording()


def test_windows_of_two_threads_both_see_both_threads() -> None:
    in_worker, in_main = threading.Event(), threading.Event()
    traces = []

    def work() -> None:
        with ranges_recorded() as session, record_function("worker's"):
            in_worker.set()
            in_main.wait()
        traces.append(trace_of(session))

    with ranges_recorded() as session:
        worker = threading.Thread(target=work, name="the worker")
        worker.start()
        in_worker.wait()
        with record_function("main's"):
            pass
        in_main.set()
        worker.join()
    traces.append(trace_of(session))
    for trace in traces:
        assert {(trace.name_of(row), thread_of(trace, row)) for row in range(len(trace))} == {
            ("main's", "MainThread"),
            ("worker's", "the worker"),
        }


def test_a_window_that_is_not_open_gives_an_empty_trace() -> None:
    window = Window()
    window.close()
    assert len(window.close().captured.slices.start_ns) == 0


def test_a_range_open_at_the_stop_is_there_and_flagged() -> None:
    left_open = record_function("left open")
    with manual_clock(), ranges_recorded() as session:
        left_open.__enter__()
        advance_clock(100)
        with record_function("finished"):
            advance_clock(10)
        advance_clock(1)
    left_open.__exit__()
    trace = trace_of(session)
    assert parents(trace) == [("left open", None), ("finished", "left open")]
    assert trace.slices.flags.tolist() == [SliceFlags.UNFINISHED, 0]
    assert trace.slices.duration_ns.tolist() == [111, 10]
    assert trace.slices.self_ns.tolist() == [101, 10]


def test_a_range_open_at_an_inner_stop_is_finished_in_the_outer_window() -> None:
    with manual_clock(), ranges_recorded() as outer:
        with ranges_recorded() as inner:
            scope = record_function("across")
            scope.__enter__()
            advance_clock(10)
        advance_clock(10)
        scope.__exit__()
    assert trace_of(inner).slices.flags.tolist() == [SliceFlags.UNFINISHED]
    assert trace_of(inner).slices.duration_ns.tolist() == [10]
    assert trace_of(outer).slices.flags.tolist() == [0]
    assert trace_of(outer).slices.duration_ns.tolist() == [20]


def test_a_range_that_outlives_its_recording_is_not_in_the_next() -> None:
    scope = record_function("once")
    with ranges_recorded() as first:
        scope.__enter__()
    with ranges_recorded() as second:
        scope.__exit__()
        with record_function("new"):
            pass
    assert list(trace_of(first).names()) == ["once"]
    assert list(trace_of(second).names()) == ["new"]


def test_a_range_entered_before_the_recording_is_not_recorded() -> None:
    with record_function("early"), ranges_recorded() as session:
        pass
    scope = record_function("half")
    scope.__enter__()
    with ranges_recorded() as session:
        scope.__exit__()
    assert len(trace_of(session)) == 0


def test_a_range_that_ends_on_another_thread_is_flagged_and_nests_nothing() -> None:
    scope = record_function("handed over")
    with ranges_recorded() as session:
        with record_function("around"):
            scope.__enter__()
        with record_function("between"):
            pass
        worker = threading.Thread(target=scope.__exit__)
        worker.start()
        worker.join()
    trace = trace_of(session)
    row = row_of(trace, "handed over")
    assert trace.slices.flags[row] == SliceFlags.ASYNC
    assert thread_of(trace, row) == "MainThread"
    assert parents(trace) == [("around", None), ("handed over", None), ("between", None)]


@pytest.mark.slow
def test_two_hundred_recordings_do_not_grow_the_process() -> None:
    def resident_bytes() -> int:
        with open("/proc/self/statm") as statm:  # noqa: PTH123 - read many times
            return int(statm.read().split()[1]) * 4096

    def record_much() -> None:
        with ranges_recorded() as session:
            for _ in range(1_000):
                with record_function("r"):
                    pass
        assert len(trace_of(session)) == 1_000

    for _ in range(50):
        record_much()
    before = resident_bytes()
    for _ in range(200):
        record_much()
    # Each recording holds 64 KB of records; a leak of them would be 13 MB.
    assert resident_bytes() - before < 4 << 20


# ---- a bound on memory


def test_the_size_of_an_event_is_what_the_recorder_has() -> None:
    header = Path(__file__).parents[2] / "native/include/stepscope/record.h"
    assert f"static_assert(sizeof(Record) == {RECORD_BYTES}," in header.read_text(encoding="utf-8")


def made_and_kept(count: int, limit: MemoryLimit) -> tuple[list[str], int]:
    with ranges_recorded(limit=limit) as session:
        for i in range(count):
            with record_function(f"r{i}"):
                pass
    trace = trace_of(session)
    return list(trace.names()), trace.losses.events


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("count", [10, 500, 1_000, 5_000, 20_000])
def test_what_is_kept_and_what_is_lost_is_what_was_made(keep: Keep, count: int) -> None:
    names, lost = made_and_kept(count, MemoryLimit(SMALLEST, keep))
    assert len(names) + lost == count
    everything = [f"r{i}" for i in range(count)]
    remaining = everything[: len(names)] if keep is Keep.OLDEST else everything[lost:]
    assert names == remaining


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("kib", [64, 100, 256, 1_024])
def test_the_bound_holds_and_is_used(keep: Keep, kib: int) -> None:
    """Ranges may take an eighth more than the bound."""
    room = kib * 1024 // RECORD_BYTES
    names, _ = made_and_kept(4 * room, MemoryLimit(kib * 1024, keep))
    assert room // 2 <= len(names) <= room * 9 // 8


def test_without_a_bound_nothing_is_lost() -> None:
    with ranges_recorded() as session:
        for _ in range(50_000):
            with record_function("r"):
                pass
    assert len(trace_of(session)) == 50_000
    assert trace_of(session).losses.events == 0


@pytest.mark.parametrize(
    ("keep", "dropped"), [(Keep.OLDEST, "newest"), (Keep.NEWEST, "oldest")], ids=str
)
def test_losses_are_in_the_trace_and_in_the_tables_text(keep: Keep, dropped: str) -> None:
    with ranges_recorded(limit=MemoryLimit(SMALLEST, keep)) as session:
        for _ in range(5_000):
            with record_function("r"):
                pass
    trace = trace_of(session)
    losses = trace.losses
    assert losses.events == 5_000 - len(trace)
    assert (losses.policy, losses.limit_bytes) == (dropped, SMALLEST)
    table = EventList(trace).key_averages().table()
    assert str(losses.events) in table.replace(",", "")
    assert dropped in table


def test_a_wider_window_lifts_the_bound_for_all() -> None:
    """Two windows share one buffer: the larger of their bounds holds."""
    with ranges_recorded(limit=MemoryLimit(SMALLEST)) as narrow:
        for _ in range(5_000):
            with record_function("before"):
                pass
        with ranges_recorded() as wide:
            for _ in range(5_000):
                with record_function("during"):
                    pass
    assert list(trace_of(wide).names()) == ["during"] * 5_000
    assert trace_of(wide).losses.events == 0
    losses = trace_of(narrow).losses
    assert losses.events + len(trace_of(narrow)) == 10_000
    assert losses.limit_bytes == SMALLEST


def test_losses_of_the_time_before_a_window_are_not_its_own() -> None:
    keep_newest = MemoryLimit(SMALLEST, Keep.NEWEST)
    with ranges_recorded(limit=keep_newest) as outer:
        for _ in range(700):
            with record_function("before"):
                pass
        with ranges_recorded(limit=keep_newest) as inner:
            for _ in range(100):
                with record_function("during"):
                    pass
            for _ in range(500):
                with record_function("later"):
                    pass
    for session, made in ((inner, 600), (outer, 1_300)):
        assert len(trace_of(session)) + trace_of(session).losses.events == made


@pytest.mark.parametrize("size", [-1, 0, 100, SMALLEST - 1])
def test_a_bound_too_small_to_hold_anything_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        MemoryLimit(size)


@pytest.mark.parametrize("kib", [64, 512, pytest.param(4_096, marks=pytest.mark.slow)])
@pytest.mark.parametrize("keep", Keep)
def test_ranges_survive_when_operators_are_dropped(kib: int, keep: Keep) -> None:
    """A range ends after what it encloses, when the buffer is full; it is worth the most."""
    torch = pytest.importorskip("torch")
    from stepscope import profile

    one = torch.ones(1)
    made = kib * 1024 // RECORD_BYTES * 3
    with (
        profile(memory_limit=MemoryLimit(kib * 1024, keep)) as profiler,
        record_function("epoch"),
        record_function("batch"),
    ):
        for _ in range(made):
            one.neg()
    trace = profiler.trace
    names = list(trace.names())
    assert names.count("epoch") == names.count("batch") == 1
    assert trace.losses.events == made - names.count("aten::neg") > 0
    assert chain_of(trace, names.index("batch")) == ("batch", "epoch")
