"""Recordings that keep only the last of what happens, and what is captured of them."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

import stepscope
from stepscope import Last, MemoryLimit, _native, profile, record_function
from stepscope.background import EXPORTS, LARGE
from stepscope.live.captures import write_capture
from stepscope.live.steps import StepWatch, ranges_of_process
from stepscope.live.triggers import Triggers, TriggerWatch
from stepscope.record.budget import CALLS, MODULES, OPERATORS, SAMPLES, Budget
from stepscope.record.limits import RECORD_BYTES
from stepscope.record.running import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MS = 1_000_000


@pytest.fixture
def clock() -> Iterator[None]:
    """Have time stand still but for what a test lets pass."""
    _native.use_manual_clock(0, 0)
    yield
    _native.use_system_clock()


def emit(count: int, name: str = "a", ns: int = 1_000) -> None:
    scope = record_function(name)
    for _ in range(count):
        with scope:
            _native.advance_clock(ns)


@pytest.mark.usefixtures("clock")
def test_a_ring_keeps_the_last_seconds_and_counts_the_rest() -> None:
    with profile(keep=Last(seconds=0.1)) as prof:
        emit(300_000)  # 0.3 s
        emit(1, "last")
    trace = prof.trace
    names = [trace.strings[i] for i in trace.slices.name[-2:]]
    assert names == ["a", "last"]
    assert len(trace) + trace.info.losses.events == 300_001
    assert 99_000 <= len(trace) <= 100_001
    assert trace.info.end_ns - trace.info.start_ns <= 100 * MS
    assert trace.info.losses.policy == "ring"


def test_a_ring_of_some_bytes_begins_where_it_is_whole() -> None:
    scope = record_function("a")
    slow = record_function("slow")
    with profile(keep=Last(bytes=1 << 20)) as prof:
        for i in range(100_000):
            if i % 1000 == 0:
                thread = threading.Thread(target=lambda: slow.__enter__() and slow.__exit__())
                thread.start()
                thread.join()
            with scope:
                pass
    trace = prof.trace
    assert (trace.slices.start_ns >= trace.info.start_ns).all()
    assert 10_000 < len(trace) < (1 << 20) / RECORD_BYTES
    assert len(trace) + trace.info.losses.events == 100_100


def test_looking_at_a_recording_does_not_end_it() -> None:
    with profile() as prof:
        with record_function("before"):
            pass
        recorder = RUNNING.best()
        assert recorder is not None
        seen = recorder.snapshot()
        assert seen is not None
        with record_function("after"):
            pass
    assert [seen.trace.strings[i] for i in seen.trace.slices.name] == ["before"]
    assert [event.name for event in prof.events()] == ["before", "after"]


def test_a_window_that_wants_all_lets_a_ring_grow_only_for_its_time() -> None:
    with profile(keep=Last(bytes=1 << 20)):
        with profile() as whole:
            scope = record_function("a")
            for _ in range(50_000):
                with scope:
                    pass
        assert len(whole.trace) == 50_000
        for _ in range(50_000):
            with scope:
                pass
        recorder = RUNNING.best()
        assert recorder is not None
        blocks = recorder.snapshot()
        assert blocks is not None
        assert len(blocks) < (1 << 20) / RECORD_BYTES + 5_000


def test_a_capture_is_a_trace_that_says_why(tmp_path: Path) -> None:
    assert stepscope.capture("nothing runs") is None
    with profile(keep=Last(seconds=60)):
        with record_function("a"):
            pass
        path = stepscope.capture("a test", tmp_path / "x.stepscope", wait=True)
    assert path == tmp_path / "x.stepscope"
    trace = stepscope.read_trace(path)
    assert trace.info.user["capture"]["reason"] == "a test"
    assert len(trace) == 1


@pytest.mark.usefixtures("clock")
def test_slow_steps_are_captured_whole_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planted = {60, 140}
    with profile(keep=Last(seconds=60)):
        recorder = RUNNING.best()
        assert recorder is not None
        steps = StepWatch(ranges_of_process())
        triggers = Triggers(slow_step=2.0, every_s=0)
        watch = TriggerWatch(triggers, partial(write_capture, recorder))
        for step in range(200):
            emit(1, f"ProfilerStep#{step}", (5 if step in planted else 1) * MS)
            if step % 20 in {0, 9}:
                steps.read()  # as `stepscope top` does
            if step % 20 == 19:
                watch.look_at_steps(steps)
                watch.capture_waiting()
    stepscope.wait_for_exports()
    names_seen = set()
    for path in tmp_path.glob("*.stepscope"):
        trace = stepscope.read_trace(path)
        for slow in trace.info.user["capture"]["slow_steps"]:
            rows = [i for i, n in enumerate(trace.slices.step) if n == slow["step"]]
            assert trace.slices.duration_ns[rows].max() == 5 * MS
            names_seen.add(slow["step"])
    assert names_seen == planted


def test_captures_are_limited_in_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with profile(keep=Last(seconds=60)):
        recorder = RUNNING.best()
        assert recorder is not None
        triggers = Triggers(on_exception=True, most=2, every_s=0)
        watch = TriggerWatch(triggers, partial(write_capture, recorder))
        for i in range(4):
            watch.fire("test", f"reason {i}")
            watch.capture_waiting()
    stepscope.wait_for_exports()
    assert len(list(tmp_path.glob("*.stepscope"))) == 2


def test_stop_leaves_large_traces_to_the_background(tmp_path: Path) -> None:
    def many() -> None:
        scope = record_function("a")
        for _ in range(LARGE):
            with scope:
                pass

    with profile(on_trace_ready=stepscope.tensorboard_trace_handler(tmp_path)) as prof:
        many()
    stepscope.wait_for_exports()
    assert len(list(tmp_path.iterdir())) == 1
    assert len(prof.events()) == LARGE
    prof.export_chrome_trace(tmp_path / "no such folder" / "x.json", background=True)
    with pytest.raises(stepscope.StepscopeError, match="no such folder"):
        stepscope.wait_for_exports()
    stepscope.wait_for_exports()


def test_small_traces_are_there_when_stop_returns(tmp_path: Path) -> None:
    handler = stepscope.tensorboard_trace_handler(tmp_path)
    with profile(on_trace_ready=handler), record_function("a"):
        pass
    assert len(list(tmp_path.iterdir())) == 1
    assert not EXPORTS.waiting()


def test_each_cycle_keeps_its_own_events_until_it_is_built() -> None:
    cycles = []
    with pytest.warns(UserWarning, match="warmup"):
        plan = stepscope.schedule(wait=0, warmup=0, active=1, repeat=3)
    with profile(schedule=plan, with_stack=True) as prof:
        for i in range(3):
            with record_function(f"work {i}"):
                pass
            prof.step()
            cycles.append(prof._recorder.cycle)
    for i, cycle in enumerate(cycles):
        assert cycle is not None
        assert f"work {i}" in [cycle.trace.strings[n] for n in cycle.trace.slices.name]


def test_a_budget_turns_the_dearest_off_in_its_order() -> None:
    was_on, turned_off, lines = {CALLS, MODULES, OPERATORS}, list[str](), list[str]()

    def turn_off(burden: str) -> bool:
        turned_off.append(burden)
        return burden in was_on

    budget = Budget(0.01, 1_000, turn_off, lines.append)
    collected = []
    for second, events in enumerate((0, 10_000, 30_000, 50_000, 70_000, 90_000), start=1):
        budget.look(events, second * 1_000 * MS)
        collected.append(list(turned_off))
    calls_to_operators = [CALLS, MODULES, SAMPLES, OPERATORS]
    assert collected[:2] == [[], []]  # 1 % is within the budget
    assert collected[2:5] == [calls_to_operators[:1], calls_to_operators[:2], calls_to_operators]
    assert collected[5] == calls_to_operators
    assert lines[0] == (
        "recording costs 2.0% of the time, over the budget of 1.0%: Python calls and stacks are "
        "not recorded from now on"
    )


def test_what_is_wrong_with_a_ring_is_said() -> None:
    with pytest.raises(TypeError, match=r"Last\(seconds=60\)"):
        Last()
    with pytest.raises(ValueError, match="seconds=-1"):
        Last(seconds=-1)
    with pytest.raises(TypeError, match="keep=60"):
        profile(keep=60)  # type: ignore[arg-type]
    assert Last(seconds=5).limit(MemoryLimit(1 << 20)).bytes == 1 << 20
    assert write_capture(profile()._recorder, {"reason": "x"}) is None
