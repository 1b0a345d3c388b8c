"""The Profiler: its states, its callback, its results; and where Paddle's own goes wrong."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from recording import nothing_left_on, run_python
from stepscope._native import recording
from stepscope.frameworks.paddle.views.event_types import event_types
from stepscope.paddle import Profiler, ProfilerState, RecordEvent, TracerEventType, make_scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

CLOSED, READY, RECORD, RETURN = ProfilerState


@pytest.fixture(autouse=True)
def _nothing_left_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with nothing_left_on():
        yield


class Deliveries(list[tuple[int, ProfilerState, ProfilerState, list[str]]]):
    """A callback that notes step, previous and current state, and what was recorded."""

    def __call__(self, prof: Profiler) -> None:
        self.append((prof.step_num, prof.previous_state, prof.current_state, worked(prof)))


def worked(prof: Profiler) -> list[str]:
    return [name for name in prof.trace.names() if not name.startswith("ProfileStep#")]


def run(states: Sequence[ProfilerState], steps: int | None = None) -> tuple[Profiler, Deliveries]:
    """Run over a list of states, a range named after each step; then CLOSED for ever."""
    ready = Deliveries()

    def scheduler(step: int) -> ProfilerState:
        return states[step] if step < len(states) else CLOSED

    prof = Profiler(scheduler=scheduler, on_trace_ready=ready)
    prof.start()
    for step in range(len(states) if steps is None else steps):
        with RecordEvent(f"s{step}"):
            pass
        prof.step()
    prof.stop()
    return prof, ready


# ---- steps and states


def test_1_2_3_once_calls_back_once_at_step_6_in_state_closed() -> None:
    ready = Deliveries()
    scheduler = make_scheduler(closed=1, ready=2, record=3, repeat=1)
    with Profiler(scheduler=scheduler, on_trace_ready=ready) as prof:
        for step in range(10):
            with RecordEvent(f"s{step}"):
                pass
            prof.step()
    assert ready == [(6, RETURN, CLOSED, ["s3", "s4", "s5"])]
    assert prof.step_num == 10


def test_start_opens_step_0_and_each_step_ends_one_and_opens_the_next() -> None:
    prof = Profiler(on_trace_ready=lambda _: None)
    prof.start()
    prof.step()
    prof.step()
    prof.stop()
    assert list(prof.trace.names()) == ["ProfileStep#0", "ProfileStep#1", "ProfileStep#2"]
    assert {int(event_type) for event_type in event_types(prof.trace)} == {
        int(TracerEventType.ProfileStep)
    }


def test_of_a_pair_the_recorded_steps_are_marked() -> None:
    with Profiler(scheduler=(2, 4), on_trace_ready=lambda _: None) as prof:
        for _ in range(6):
            prof.step()
    assert list(prof.trace.names()) == ["ProfileStep#2", "ProfileStep#3"]


def test_the_attributes_of_the_contract_follow_the_steps() -> None:
    prof = Profiler(scheduler=(2, 3), on_trace_ready=lambda _: None)
    seen = [(prof.step_num, prof.previous_state, prof.current_state, prof.profiler_result)]
    prof.start()
    for _ in range(3):
        prof.step()
        seen.append((prof.step_num, prof.previous_state, prof.current_state, None))
    assert seen == [
        (0, CLOSED, CLOSED, None),
        (1, CLOSED, READY, None),
        (2, READY, RETURN, None),
        (3, RETURN, CLOSED, None),
    ]
    assert prof.profiler_result is not None
    assert prof.profiler_result is prof.profiler_result
    prof.stop()


def test_without_a_scheduler_the_result_comes_at_stop() -> None:
    ready = Deliveries()
    prof = Profiler(on_trace_ready=ready)
    prof.start()
    with RecordEvent("work"):
        prof.step()
    assert prof.profiler_result is None
    assert ready == []
    prof.stop()
    assert ready == [(1, RECORD, RECORD, ["work"])]


def test_stop_takes_record_for_record_and_return() -> None:
    _, ready = run([READY, RECORD, RECORD, RECORD], steps=3)
    assert ready == [(3, RECORD, RECORD, ["s1", "s2"])]


def test_every_cycle_is_delivered() -> None:
    _, ready = run([RETURN, RETURN, RECORD, RETURN])
    assert [(step, names) for step, _, _, names in ready] == [
        (1, ["s0"]),
        (2, ["s1"]),
        (4, ["s2", "s3"]),
    ]


def test_before_start_and_after_stop_nothing_is_recorded() -> None:
    prof = Profiler(on_trace_ready=lambda _: None)
    prof.step()
    assert not recording()
    prof.start()
    assert recording()
    prof.stop()
    assert not recording()


# ---- schedulers that end a cycle too early: Paddle loses the data there


def test_ready_to_closed_warns() -> None:
    with pytest.warns(UserWarning, match="READY->CLOSED at step 1") as caught:
        prof, ready = run([READY, CLOSED])
    assert ready == []
    assert prof.profiler_result is None
    assert [warning.filename for warning in caught] == [__file__]


def test_record_to_closed_warns_and_delivers_what_was_recorded() -> None:
    with pytest.warns(UserWarning, match="RECORD->CLOSED at step 2") as caught:
        prof, ready = run([RECORD, RECORD, CLOSED])
    assert [names for *_, names in ready] == [["s0", "s1"]]
    assert worked(prof) == ["s0", "s1"]
    assert len(caught) == 1
    assert "RECORD_AND_RETURN" in str(caught[0].message)


def test_record_to_ready_warns_and_delivers_what_was_recorded() -> None:
    with pytest.warns(UserWarning, match="RECORD->READY at step 1"):
        _, ready = run([RECORD, READY, RETURN])
    assert [names for *_, names in ready] == [["s0"], ["s2"]]


def test_a_stop_while_ready_warns_and_keeps_the_last_result() -> None:
    with pytest.warns(UserWarning, match="READY->CLOSED at step 2"):
        prof, ready = run([RETURN, READY, READY], steps=2)
    assert [names for *_, names in ready] == [["s0"]]
    assert worked(prof) == ["s0"]


def test_warnings_as_errors_lose_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready = Deliveries()
        prof = Profiler(scheduler=lambda s: [RECORD, CLOSED][s], on_trace_ready=ready)
        prof.start()
        with pytest.raises(UserWarning, match="RECORD->CLOSED"):
            prof.step()
        prof.stop()
    assert len(ready) == 1


# ---- what Paddle does wrong


def test_stop_twice_is_harmless() -> None:
    ready = Deliveries()
    prof = Profiler(on_trace_ready=ready)
    prof.start()
    prof.stop()
    prof.stop()
    assert len(ready) == 1
    assert prof.profiler_result is not None


def test_stop_before_start_is_harmless() -> None:
    prof = Profiler()
    prof.stop()
    assert prof.profiler_result is None


def test_a_second_profiler_may_be_made_and_started() -> None:
    first, second = Profiler(on_trace_ready=Deliveries()), Profiler(on_trace_ready=Deliveries())
    for prof in (first, second):
        with prof, RecordEvent("work"):
            pass
    assert worked(first) == worked(second) == ["work"]


def test_nested_profilers_see_what_happens_in_their_time() -> None:
    with Profiler(on_trace_ready=lambda _: None) as outer:
        with RecordEvent("a"):
            pass
        with Profiler(on_trace_ready=lambda _: None) as inner, RecordEvent("b"):
            pass
        with RecordEvent("c"):
            pass
    assert worked(inner) == ["b"]
    assert worked(outer) == ["a", "b", "c"]


def test_overlapping_profilers_see_what_happens_in_their_time() -> None:
    first, second = (Profiler(on_trace_ready=lambda _: None) for _ in range(2))
    first.start()
    second.start()
    with RecordEvent("both"):
        pass
    first.stop()
    with RecordEvent("second"):
        pass
    second.stop()
    assert worked(first) == ["both"]
    assert worked(second) == ["both", "second"]


def test_a_profiler_may_run_again() -> None:
    ready = Deliveries()
    prof = Profiler(on_trace_ready=ready)
    for name in ("one", "two"):
        with prof, RecordEvent(name):
            pass
    assert [names for *_, names in ready] == [["one"], ["two"]]


@pytest.mark.parametrize("timer_only", [False, True])
def test_starting_twice_is_a_clear_error(timer_only: bool) -> None:
    prof = Profiler(timer_only=timer_only, on_trace_ready=lambda _: None)
    prof.start()
    with pytest.raises(RuntimeError, match=r"already started: stop\(\) it"):
        prof.start()
    prof.stop()


def test_an_exception_in_the_block_goes_on_after_the_trace_was_delivered() -> None:
    ready = Deliveries()
    with pytest.raises(ZeroDivisionError), Profiler(on_trace_ready=ready), RecordEvent("work"):
        1 / 0  # noqa: B018
    assert [names for *_, names in ready] == [["work"]]


def test_an_exception_in_the_callback_is_heard_and_the_run_goes_on() -> None:
    def fail(prof: Profiler) -> None:
        raise OSError("disk full")

    prof = Profiler(scheduler=lambda step: RETURN, on_trace_ready=fail)
    prof.start()
    with pytest.raises(OSError, match="disk full"):
        prof.step()
    with RecordEvent("more"):
        pass
    with pytest.raises(OSError, match="disk full"):
        prof.stop()
    assert worked(prof) == ["more"]


def test_the_callback_may_stop_the_profiler() -> None:
    prof = Profiler(scheduler=lambda step: RETURN, on_trace_ready=lambda p: p.stop())
    prof.start()
    prof.step()
    assert not recording()
    assert prof.profiler_result is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_the_run_to_its_parent() -> None:
    done = run_python(
        """
        import os
        from stepscope.paddle import Profiler, RecordEvent
        prof = Profiler(on_trace_ready=lambda p: print(os.getpid() == parent, flush=True))
        parent = os.getpid()
        prof.start()
        child = os.fork()
        if not child:
            prof.step()
            prof.stop()
            os._exit(0)
        os.waitpid(child, 0)
        prof.stop()
        """
    )
    assert done.stdout == "True\n", done.stderr


# ---- results


def test_export_needs_a_name() -> None:
    """Paddle's process dies of this."""
    prof, _ = run([RETURN])
    for call in (prof.export, lambda: prof.export("")):
        with pytest.raises(ValueError, match="export\\(path=''\\): pass a file name"):
            call()


@pytest.mark.parametrize("wrong", ["xml", "JSON", "", None])
def test_export_of_an_unknown_format_is_an_error_that_names_it(tmp_path: Path, wrong: Any) -> None:
    prof, _ = run([RETURN])
    with pytest.raises(ValueError, match="use one of json, pb") as caught:
        prof.export("t.json", wrong)
    assert repr(wrong) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prof", [Profiler(), Profiler(timer_only=True)])
def test_export_without_a_result_is_a_clear_error(prof: Profiler) -> None:
    with pytest.raises(RuntimeError, match="nothing was recorded yet"):
        prof.export("t.json")
    with pytest.raises(RuntimeError, match="nothing was recorded yet"):
        prof.summary_tables()


def test_summary_without_a_result_warns_and_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.warns(UserWarning, match="nothing was recorded yet"):
        Profiler().summary()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("format_", ["json", "pb"])
def test_export_writes_what_can_be_read_again(tmp_path: Path, format_: Any) -> None:
    import stepscope

    prof, _ = run([RETURN])
    path = tmp_path / f"t.{format_}"
    prof.export(path, format_)
    prof.export(str(path), format=format_)  # again, and as text
    names = list(stepscope.read_trace(path).names())
    assert names == ["ProfileStep#0", "s0"]


def test_the_result_is_a_tree_of_nodes() -> None:
    prof, _ = run([RETURN])
    assert prof.profiler_result is not None
    (root,) = prof.profiler_result.get_data().values()
    (step,) = root.children_node
    assert [step.name, *(node.name for node in step.children_node)] == ["ProfileStep#0", "s0"]


def test_cpu_use_is_told_with_the_result() -> None:
    prof, _ = run([RETURN])
    user = prof.trace.info.user
    assert float(user["Process Cpu Utilization"]) > 0
    assert 0 <= float(user["System Cpu Utilization"]) <= 1


# ---- summary


def test_summary_prints_all_views_in_the_order_of_the_contract(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prof, _ = run([RETURN])
    prof.summary()
    text = capsys.readouterr().out
    views = ("Device Summary", "Overview Summary", "UserDefined Summary")
    places = [text.index(view) for view in views]
    assert places == sorted(places)
    assert "s0" in text


def test_summary_without_a_step_divides_nothing_by_zero(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prof = Profiler(scheduler=lambda s: [RETURN, CLOSED][s > 0], on_trace_ready=lambda _: None)
    prof.start()
    prof.stop()
    prof.summary()
    assert "Overview Summary" in capsys.readouterr().out


def test_summary_takes_one_view_or_several(capsys: pytest.CaptureFixture[str]) -> None:
    from stepscope.paddle import SummaryView

    prof, _ = run([RETURN])
    prof.summary(views=SummaryView.OverView)
    assert "Overview Summary" in (stdout := capsys.readouterr().out)
    assert "UserDefined Summary" not in stdout
    prof.summary(views=[SummaryView.UDFView, SummaryView.OverView])
    both = capsys.readouterr().out
    assert "Overview Summary" in both
    assert "UserDefined Summary" in both


def test_with_flops_the_layers_follow_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with Profiler(with_flops=True, on_trace_ready=lambda _: None) as prof:
        prof.step()
    prof.summary()
    text = capsys.readouterr().out
    assert text.index("Overview Summary") < text.index(" Flops Profiler Begin ".center(100, "-"))
    assert text.endswith("- Flops Profiler End -".center(100, "-") + "\n")


@pytest.mark.parametrize("unit", ["minutes", "", None])
def test_summary_with_another_unit_is_a_value_error(unit: Any) -> None:
    prof, _ = run([RETURN])
    with pytest.raises(ValueError, match="unit"):
        prof.summary(time_unit=unit)


@pytest.mark.parametrize(
    ("argument", "wrong"), [("sorted_by", "CPUTotal"), ("views", "OverView"), ("views", [3])]
)
def test_summary_names_an_argument_that_is_wrong(argument: str, wrong: Any) -> None:
    prof, _ = run([RETURN])
    with pytest.raises(TypeError, match="use one of"):
        prof.summary(**{argument: wrong})


def test_each_view_is_a_table_as_well() -> None:
    prof, _ = run([RETURN])
    tables = prof.summary_tables()
    assert tables["user_defined"]["name"].to_list() == ["s0"]
    assert "ProfileStep" in tables["overview"]["event_type"].to_list()
