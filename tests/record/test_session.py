"""The Session: its state machine, whatever the dialect."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from recording import nothing_left_on, ranges_recorded, trace_of
from stepscope import ProfilerAction, Session, record_function
from stepscope._native import recording
from stepscope.record.session import _TRANSITIONS
from stepscope.record.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.trace.schema import Captured

ACTIONS = [NONE, WARMUP, RECORD, SAVE] = [*ProfilerAction][:4]  # what schedules return


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield


class Journal(Source):
    """A source that writes down what is asked of it."""

    name = "journal"

    def __init__(self, failing_at: str = "") -> None:
        self.asked: list[str] = []
        self._failing_at = failing_at

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if what == self._failing_at:
            raise OSError(f"cannot {what}")

    def prepare(self) -> None:
        self._note("prepare")

    def start(self) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def collect(self) -> Captured | None:
        self._note("collect")
        return None

    def describe(self) -> str:
        return "writes down what is asked of it"


class Run:
    """A run over a list of actions, a range named after each step; then NONE for ever."""

    def __init__(self, actions: Sequence[ProfilerAction], steps: int | None = None) -> None:
        self.delivered: list[tuple[int, list[str]]] = []
        self.source = Journal()
        self.session = Session(
            [self.source],
            schedule=lambda step: actions[step] if step < len(actions) else NONE,
            on_trace=self._deliver,
        )
        self.session.start()
        for step in range(len(actions) if steps is None else steps):
            with record_function(f"s{step}"):
                pass
            self.session.step()
        self.session.stop()

    def _deliver(self) -> None:
        self.delivered.append((self.session.step_num, self.names_kept()))

    def names_kept(self) -> list[str]:
        names = trace_of(self.session).names()
        return [name for name in names if not name.startswith("ProfilerStep#")]


def test_one_cycle_is_delivered_after_its_last_step() -> None:
    run = Run([NONE, WARMUP, RECORD, SAVE, NONE])
    assert run.delivered == [(4, ["s2", "s3"])]
    assert run.source.asked == ["prepare", "start", "stop", "collect"]


def test_each_cycle_is_delivered_alone() -> None:
    run = Run([WARMUP, SAVE, WARMUP, RECORD, SAVE, NONE, SAVE])
    assert run.delivered == [(2, ["s1"]), (5, ["s3", "s4"]), (7, ["s6"])]
    assert run.source.asked == ["prepare", "start", "stop", "collect"] * 3


def test_cycles_follow_each_other_without_a_gap() -> None:
    run = Run([SAVE, SAVE, RECORD, SAVE])
    assert run.delivered == [(1, ["s0"]), (2, ["s1"]), (4, ["s2", "s3"])]


def test_a_recording_that_is_still_on_at_the_stop_is_delivered() -> None:
    run = Run([RECORD, RECORD, RECORD], steps=2)
    assert run.delivered == [(2, ["s0", "s1"])]


def test_a_stop_during_warmup_delivers_nothing_and_leaves_an_empty_trace() -> None:
    run = Run([WARMUP, WARMUP, WARMUP], steps=2)
    assert run.delivered == []
    assert run.names_kept() == []


def test_a_stop_before_any_cycle_leaves_no_trace() -> None:
    run = Run([NONE, NONE])
    assert run.session.trace is None
    assert run.source.asked == []


def test_a_warmup_that_leads_to_nothing_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="WARMUP followed by NONE at step 1"):
        run = Run([WARMUP, NONE])
    assert run.delivered == []


def test_a_recording_that_ends_without_save_is_warned_about_and_kept() -> None:
    with pytest.warns(UserWarning, match="RECORD followed by NONE at step 1") as caught:
        run = Run([RECORD, NONE])
    assert len(caught) == 1
    assert run.delivered == []
    assert run.names_kept() == ["s0"]


def test_record_warmup_record_and_save_does_not_crash() -> None:
    """torch 2.13 dies of this one."""
    with pytest.warns(UserWarning, match="RECORD followed by WARMUP at step 1"):
        run = Run([RECORD, WARMUP, SAVE, NONE])
    assert run.delivered == [(3, ["s2"])]


@pytest.mark.filterwarnings("ignore:Incorrect schedule")
@pytest.mark.parametrize("actions", list(itertools.product(ACTIONS, repeat=3)), ids=str)
def test_any_three_actions_leave_everything_stopped(actions: tuple[ProfilerAction, ...]) -> None:
    run = Run(actions)
    assert not run.session.running
    starts, stops = run.source.asked.count("start"), run.source.asked.count("stop")
    assert starts == stops == run.source.asked.count("collect")
    assert run.delivered == [
        delivery for delivery in run.delivered if delivery[1]
    ]  # none without events
    assert len(run.delivered) == actions.count(SAVE)


def test_every_transition_is_in_the_table() -> None:
    after: list[ProfilerAction | None] = [*ACTIONS, None]
    assert set(_TRANSITIONS) == set(itertools.product(ACTIONS, after))


def test_a_schedule_that_returns_nonsense_is_named_with_its_step() -> None:
    odd: Any = {0: RECORD, 1: "record"}.get
    session = Session([], schedule=odd)
    session.start()
    with pytest.raises(TypeError, match=r"'record' for step 1"):
        session.step()
    session.stop()


def test_steps_are_marked_only_while_they_are_recorded() -> None:
    session = Session([], schedule=lambda step: [NONE, RECORD, SAVE, NONE][step])
    session.start()
    for _ in range(3):
        session.step()
    session.stop()
    assert list(trace_of(session).names()) == ["ProfilerStep#1", "ProfilerStep#2"]
    assert trace_of(session).slices.flags.tolist() == [0, 0]


def test_without_a_schedule_steps_are_counted_and_not_marked() -> None:
    with ranges_recorded() as session:
        session.step()
        session.step()
    assert session.step_num == 2
    assert len(trace_of(session)) == 0


def test_a_second_stop_changes_nothing() -> None:
    with ranges_recorded() as session, record_function("a"):
        pass
    trace = session.trace
    session.stop()
    assert session.trace is trace


def test_a_second_start_is_refused_and_the_first_goes_on() -> None:
    with ranges_recorded() as session:
        with pytest.raises(RuntimeError, match="already started"):
            session.start()
        with record_function("a"):
            pass
    assert list(trace_of(session).names()) == ["a"]


def test_a_session_may_be_started_again() -> None:
    session = Session([])
    for name in "ab":
        session.start()
        with record_function(name):
            pass
        session.stop()
        assert list(trace_of(session).names()) == [name]


# ---- things that fail


def test_a_source_that_cannot_start_stops_the_others_and_the_recording() -> None:
    good, bad = Journal(), Journal(failing_at="start")
    session = Session([good, bad])
    with pytest.raises(OSError, match="cannot start"):
        session.start()
    assert good.asked == ["prepare", "start", "stop"]
    assert not session.running
    session.stop()
    assert session.trace is None


def test_a_source_that_cannot_prepare_leaves_the_session_stopped() -> None:
    delivered: list[int] = []
    session = Session([Journal(failing_at="prepare")], on_trace=lambda: delivered.append(1))
    with pytest.raises(OSError, match="cannot prepare"):
        session.start()
    assert not session.running
    session.stop()
    assert delivered == []
    with pytest.raises(OSError, match="cannot prepare"):  # and not "already started"
        session.start()


def test_a_source_that_cannot_stop_does_not_keep_the_others_running() -> None:
    good, bad = Journal(), Journal(failing_at="stop")
    session = Session([good, bad])
    session.start()
    with record_function("a"):
        pass
    with pytest.raises(OSError, match="cannot stop"):
        session.stop()
    assert good.asked == ["prepare", "start", "stop"]
    assert not recording()


def test_an_exception_in_on_trace_goes_to_the_caller_and_the_trace_stays() -> None:
    def fail() -> None:
        raise KeyError("in the callback")

    session = Session([], on_trace=fail)
    session.start()
    with record_function("a"):
        pass
    with pytest.raises(KeyError, match="in the callback"):
        session.stop()
    assert list(trace_of(session).names()) == ["a"]
    assert not session.running


def test_an_exception_in_on_trace_at_a_step_does_not_end_the_run() -> None:
    """Nor is one trace delivered twice."""
    delivered: list[list[str]] = []

    def fail_first() -> None:
        delivered.append(sorted(trace_of(session).names()))
        if len(delivered) == 1:
            raise KeyError("in the callback")

    session = Session([], schedule=lambda _: SAVE, on_trace=fail_first)
    session.start()
    with pytest.raises(KeyError, match="in the callback"):
        session.step()
    with record_function("after"):
        pass
    session.stop()
    assert len(delivered) == 2
    assert delivered[0] == ["ProfilerStep#0"]
    assert "after" in delivered[1]


def test_stop_inside_on_trace_is_harmless() -> None:
    session = Session([], schedule=lambda _: SAVE, on_trace=lambda: session.stop())  # noqa: PLW0108
    session.start()
    session.step()
    session.stop()
    assert not session.running


# ---- several


def test_nested_sessions_both_record() -> None:
    with ranges_recorded() as outer:
        with record_function("a"):
            pass
        with ranges_recorded() as inner, record_function("b"):
            pass
        with record_function("c"):
            pass
    assert list(trace_of(outer).names()) == ["a", "b", "c"]
    assert list(trace_of(inner).names()) == ["b"]


def test_sessions_that_overlap_without_nesting() -> None:
    first, second = Session([]), Session([])
    first.start()
    second.start()
    with record_function("both"):
        pass
    first.stop()
    with record_function("second"):
        pass
    second.stop()
    assert list(trace_of(first).names()) == ["both"]
    assert list(trace_of(second).names()) == ["both", "second"]


def test_a_session_may_be_stopped_by_another_thread() -> None:
    session = Session([], schedule=lambda _: RECORD)
    session.start()
    with record_function("a"):
        pass
    thread = threading.Thread(target=session.stop)
    thread.start()
    thread.join()
    assert sorted(trace_of(session).names()) == ["ProfilerStep#0", "a"]


def test_the_trace_says_where_it_comes_from() -> None:
    import os
    import platform

    with ranges_recorded() as session:
        pass
    info = trace_of(session).info
    assert info.producer == "stepscope"
    assert info.pid == os.getpid()
    assert info.host == platform.node()
    assert info.versions["python"] == platform.python_version()
    assert info.start_ns <= info.end_ns


@pytest.mark.parametrize(
    ("rank", "world_size", "expected"),
    [("3", "8", (3, 8)), ("0", "1", (0, 1)), ("x", "8", (None, None)), (None, None, (None, None))],
)
def test_the_launchers_rank_is_noted(
    rank: str | None,
    world_size: str | None,
    expected: tuple[int | None, int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with ranges_recorded() as session:
        pass
    info = trace_of(session).info
    assert (info.rank, info.world_size) == expected
