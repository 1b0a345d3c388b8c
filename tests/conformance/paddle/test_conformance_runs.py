"""Runs of a profiler: states, callbacks, warnings, the timer, and what is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from both import (
    Numbers,
    Training,
    assert_same,
    on_both,
    paddle,
    recorded,
    warned,
    without_numbers,
)

from recording import run_python

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = ("CLOSED", "READY", "RECORD", "RECORD_AND_RETURN")


def history(scheduler: Any, steps: int = 9) -> Callable[[Any], Any]:
    """Return what runs a schedule and notes all that can be seen of it."""

    def run(module: Any) -> Any:
        delivered: list[Any] = []

        def ready(profiler: Any) -> None:
            has_result = profiler.profiler_result is not None
            delivered.append((profiler.step_num, profiler.current_state.name, has_result))

        made = scheduler(module) if callable(scheduler) else scheduler
        profiler = module.Profiler(scheduler=made, on_trace_ready=ready)
        seen = [(profiler.step_num, profiler.previous_state.name, profiler.current_state.name)]
        profiler.start()
        for _ in range(steps):
            profiler.step()
            seen.append(
                (profiler.step_num, profiler.previous_state.name, profiler.current_state.name)
            )
        profiler.stop()
        return seen, delivered

    return run


def by_names(*names: str) -> Callable[[Any], Any]:
    """Return what makes a scheduler of a row of states, which ends closed."""

    def make(module: Any) -> Any:
        states = [getattr(module.ProfilerState, name) for name in names]
        closed = module.ProfilerState.CLOSED
        return lambda step: states[step] if step < len(states) else closed

    return make


@pytest.mark.parametrize(
    "scheduler",
    [
        None,
        (2, 4),
        (0, 3),
        lambda m: m.make_scheduler(closed=1, ready=2, record=3, repeat=1),
        lambda m: m.make_scheduler(closed=0, ready=1, record=1),
        by_names(*["RECORD_AND_RETURN"] * 4),
        by_names("READY", "RECORD", "RECORD_AND_RETURN", "READY", "RECORD_AND_RETURN"),
        by_names("CLOSED", "RECORD_AND_RETURN", "CLOSED", "RECORD_AND_RETURN"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_states_and_callbacks(scheduler: Any) -> None:
    assert_same(history(scheduler, 6))


@pytest.mark.parametrize(
    "names", [("READY", "CLOSED"), ("RECORD", "CLOSED"), ("RECORD", "READY", "RECORD_AND_RETURN")]
)
def test_a_cut_cycle_warns(names: tuple[str, ...]) -> None:
    assert_same(lambda m: len(warned(lambda: history(by_names(*names), len(names))(m))) > 0)


def test_a_stop_while_getting_ready_warns() -> None:
    assert_same(lambda m: len(warned(lambda: history(by_names("READY"), 0)(m))))


def test_the_flag_of_utils() -> None:
    def run(module: Any) -> list[bool]:
        seen = [module.utils._is_profiler_used]
        profiler = recorded(module, lambda: seen.append(module.utils._is_profiler_used))
        seen += [module.utils._is_profiler_used, module.utils.in_profiler_mode()]
        profiler = module.Profiler(timer_only=True, on_trace_ready=lambda _: None)
        with profiler:
            seen.append(module.utils._is_profiler_used)
        return seen

    assert assert_same(run) == [False, True, False, False, False]


# ---- the timer


@pytest.mark.parametrize("samples", [None, 4])
@pytest.mark.parametrize("unit", [None, "images"])
@pytest.mark.parametrize("timer_only", [True, False])
def test_step_info(samples: int | None, unit: str | None, timer_only: bool) -> None:
    def run(module: Any) -> list[str]:
        profiler = module.Profiler(timer_only=timer_only, on_trace_ready=lambda _: None)
        collected = []
        with profiler:
            for _ in paddle.io.DataLoader(Numbers(), batch_size=1):
                profiler.step(num_samples=samples)
                if profiler.step_num % 4 == 3:
                    collected.append(without_numbers(profiler.step_info(unit)))
            collected.append(without_numbers(profiler.step_info(unit)))
        return collected

    assert_same(run)


@pytest.mark.parametrize("samples", [None, 4])
def test_the_summary_of_steps(samples: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    def run(module: Any) -> str:
        profiler = module.Profiler(timer_only=True, on_trace_ready=lambda _: None)
        loader = paddle.io.DataLoader(Numbers(), batch_size=1)
        with profiler:
            for _ in range(2):
                for _ in loader:
                    profiler.step(num_samples=samples)
            profiler.step_info("images")
        return without_numbers(capsys.readouterr().out)

    assert "Perf Summary" in assert_same(run)


# ---- summary()


def shown(module: Any, capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    training = Training()
    profiler = recorded(module, training.step, profile_memory=True)
    capsys.readouterr()
    profiler.summary(**options)
    return capsys.readouterr().out


def test_summary_has_all_tables_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def titles(module: Any) -> list[str]:
        lines = shown(module, capsys).splitlines()
        return [line.strip("-") for line in lines if "Summary" in line and line.startswith("--")]

    assert "Overview Summary" in assert_same(titles)


def rows_of(text: str) -> set[str]:
    """Return the first cells of a summary's tables; notes are in each one's own words."""
    cells = (line.split("  ") for line in text.splitlines() if "  " in line.strip())
    return {without_numbers(row[0] or row[1]) for row in cells if "|" not in row[0]}


@pytest.mark.parametrize(
    "view", ["DeviceView", "ModelView", "DistributedView", "KernelView", "OperatorView", "UDFView"]
)
def test_a_view_has_the_same_rows(view: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(module: Any) -> set[str]:
        return rows_of(shown(module, capsys, views=getattr(module.SummaryView, view)))

    assert_same(run)


def test_the_overview_has_the_same_types(capsys: pytest.CaptureFixture[str]) -> None:
    def run(module: Any) -> dict[str, str]:
        text = shown(module, capsys, views=[module.SummaryView.OverView])
        cells = (line.split() for line in text.splitlines())
        return {row[0]: row[1] for row in cells if len(row) == 4 and row[1].isdecimal()}

    assert "Forward" in assert_same(run)


def test_memory_is_told_of_the_same_operators(capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = on_both(lambda m: rows_of(shown(m, capsys, views=m.SummaryView.MemoryView)))
    assert "matmul kernel launch" in ours
    assert ours <= theirs  # Paddle counts bytes again in what is around them


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_units(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    def run(module: Any) -> Any:
        text = shown(module, capsys, time_unit=unit, views=module.SummaryView.OverView)
        return [line for line in text.splitlines() if line.startswith("Time unit")]

    assert assert_same(run) == [f"Time unit: {unit}"]


@pytest.mark.parametrize("key", ["CPUTotal", "CPUAvg", "CPUMax", "CPUMin"])
def test_rows_are_sorted(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each by its own times: the column of the key never goes the wrong way."""
    column = ["CPUTotal", "CPUAvg", "CPUMax", "CPUMin"].index(key)

    def run(module: Any) -> bool:
        options = {"views": [module.SummaryView.OperatorView], "op_detail": False}
        text = shown(
            module, capsys, sorted_by=getattr(module.SortedKeys, key), time_unit="ns", **options
        )
        cells = [line.split("/") for line in text.splitlines() if line.count(" / ") >= 4]
        numbers = [float(row[column].split()[-1]) for row in cells[1:]]
        expected = sorted(numbers, reverse=key != "CPUMin")
        return len(numbers) > 3 and numbers == expected

    assert assert_same(run)


def test_paddles_statistics_of_our_result() -> None:
    training = Training()

    def run(module: Any) -> Any:
        profiler = recorded(module, training.step)
        result = profiler.profiler_result
        data = module.profiler_statistic.StatisticData(result.get_data(), result.get_extra_info())
        calls = {name: item.call for name, item in data.event_summary.items.items()}
        types = {item.name: n for item, n in data.time_range_summary.call_times.items()}
        return calls, types

    calls, _ = assert_same(run)
    assert calls["matmul dygraph"] == 2


def test_all_modules_can_be_put_in_the_place_of_paddles() -> None:
    code = """
        import sys, paddle, stepscope.paddle as ours
        names = ("utils", "profiler", "profiler_statistic", "statistic_helper", "timer")
        for name in names:
            sys.modules[f"paddle.profiler.{name}"] = getattr(ours, name)
        sys.modules["paddle.profiler"] = paddle.profiler = ours
        from paddle.profiler import profiler_statistic, utils
        import paddle.profiler.statistic_helper as helper
        assert helper.sum_ranges([(0, 2)]) == 2
        with paddle.profiler.Profiler(on_trace_ready=lambda _: None, with_flops=True) as p:
            assert utils._is_profiler_used
            with utils.RecordEvent("mine"):
                paddle.nn.Linear(2, 2)(paddle.ones([1, 2])).sum().backward()
        assert not utils._is_profiler_used
        result = p.profiler_result
        data = profiler_statistic.StatisticData(result.get_data(), result.get_extra_info())
        types = {kind.name: n for kind, n in data.time_range_summary.call_times.items()}
        print(types["Forward"], types["Backward"], types["PythonUserDefined"])
        p.summary()
        p._print_flops()
    """
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 1 1\n")
