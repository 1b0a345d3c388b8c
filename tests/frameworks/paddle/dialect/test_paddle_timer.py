"""The benchmark timer: exact numbers, by a clock that is set by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recording import manual_clock
from stepscope._native import advance_clock
from stepscope.frameworks.paddle.dialect.timer import BenchmarkTimer
from stepscope.paddle import Profiler

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000
TITLE = "=" * 44 + "Perf Summary" + "=" * 44
HEADING = "|                 |       avg       |       max       |       min       |"
DATA, OTHER_DATA = object(), object()


@pytest.fixture(autouse=True)
def _time_stands_still() -> Iterator[None]:
    with manual_clock(start_ns=5 * MS):
        yield


@pytest.fixture
def timer() -> BenchmarkTimer:
    timer = BenchmarkTimer()
    timer.start()
    return timer


def step(timer: BenchmarkTimer, ms: float, samples: int | None = None, read_ms: float = 0) -> None:
    if read_ms:
        read(timer, read_ms)
    advance_clock(int((ms - read_ms) * MS))
    timer.step(samples)


def read(timer: BenchmarkTimer, ms: float, data: object = DATA) -> None:
    timer.read_begins(data)
    advance_clock(int(ms * MS))
    timer.read_ends()


def rows(text: str | None) -> dict[str, list[float]]:
    """Return the numbers of a summary's table."""
    assert text is not None
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {row[0].strip(): [float(cell) for cell in row[1:]] for row in cells[1:]}


# ---- step_info


def test_step_info_has_the_form_of_the_contract(timer: BenchmarkTimer) -> None:
    step(timer, 1.34, samples=4, read_ms=0.9)
    info = timer.step_info("images")
    assert info == " reader_cost: 0.00090 s batch_cost: 0.00134 s ips: 2985.075 images/s"


def test_step_info_is_the_average_since_the_last_call(timer: BenchmarkTimer) -> None:
    step(timer, 10, samples=2, read_ms=2)
    step(timer, 30, samples=6, read_ms=4)
    assert (
        timer.step_info() == " reader_cost: 0.00300 s batch_cost: 0.02000 s ips: 200.000 samples/s"
    )
    step(timer, 5, samples=1, read_ms=1)
    assert (
        timer.step_info() == " reader_cost: 0.00100 s batch_cost: 0.00500 s ips: 200.000 samples/s"
    )
    assert timer.step_info() == ""


def test_without_samples_the_speed_is_in_steps(timer: BenchmarkTimer) -> None:
    step(timer, 20)
    assert timer.step_info("images") == " batch_cost: 0.02000 s ips: 50.000 steps/s"


def test_reads_of_one_step_add_up(timer: BenchmarkTimer) -> None:
    read(timer, 1)
    read(timer, 2)
    step(timer, 7)
    assert timer.step_info() == " reader_cost: 0.00300 s batch_cost: 0.01000 s ips: 100.000 steps/s"


def test_step_info_of_the_profiler_takes_samples_for_the_unit() -> None:
    with Profiler(timer_only=True) as prof:
        assert prof.step_info() == ""
        for unit, shown_unit in ((None, "samples/s"), ("tokens", "tokens/s")):
            advance_clock(8 * MS)
            prof.step(num_samples=4)
            assert prof.step_info(unit) == f" batch_cost: 0.00800 s ips: 500.000 {shown_unit}"


def test_before_the_start_there_is_nothing_to_say() -> None:
    prof = Profiler(timer_only=True)
    prof.step(3)
    assert prof.step_info() == ""


# ---- the closing summary


def test_the_summary_has_the_layout_of_the_contract(timer: BenchmarkTimer) -> None:
    for _ in range(10):
        step(timer, 1000, samples=8, read_ms=500)
    for ms, read_ms in ((1, 0.2), (2, 0.1), (3, 0.3)):
        step(timer, ms, samples=6, read_ms=read_ms)
    timer.step_info("images")
    text = timer.stop()
    assert text is not None
    assert text.splitlines() == [
        TITLE,
        "Reader Ratio: 10.000%",
        "Time Unit: s, IPS Unit: images/s",
        HEADING,
        "|   reader_cost   |     0.00020     |     0.00030     |     0.00010     |",
        "|    batch_cost   |     0.00200     |     0.00300     |     0.00100     |",
        "|       ips       |    3000.00000   |    6000.00000   |    2000.00000   |",
    ]


def test_without_a_loader_there_is_no_line_of_it(timer: BenchmarkTimer) -> None:
    for _ in range(11):
        step(timer, 4)
    text = timer.stop()
    assert text is not None
    assert text.splitlines() == [
        TITLE,
        "Time Unit: s, IPS Unit: steps/s",
        HEADING,
        "|    batch_cost   |     0.00400     |     0.00400     |     0.00400     |",
        "|       ips       |    250.00000    |    250.00000    |    250.00000    |",
    ]


@pytest.mark.parametrize("steps", [0, 1, 10])
def test_no_summary_up_to_10_steps(timer: BenchmarkTimer, steps: int) -> None:
    for _ in range(steps):
        step(timer, 1)
    assert timer.stop() is None


@pytest.mark.parametrize("steps", [11, 12, 20])
def test_the_average_is_over_the_steps_after_the_10th(timer: BenchmarkTimer, steps: int) -> None:
    """Paddle sums up N-9 of them and divides by N-10."""
    for number in range(1, steps + 1):
        step(timer, 100 if number <= 10 else 2, samples=10)
    table = rows(timer.stop())
    assert table["batch_cost"] == [0.002] * 3
    assert table["ips"] == [5000.0] * 3


def test_the_smallest_is_a_number_also_when_values_only_grow(timer: BenchmarkTimer) -> None:
    """Paddle prints inf."""
    for ms in range(1, 14):
        step(timer, ms, samples=13, read_ms=ms / 2)
    table = rows(timer.stop())
    assert table["batch_cost"] == [0.012, 0.013, 0.011]
    assert table["reader_cost"] == [0.006, 0.0065, 0.0055]
    assert table["ips"][2] == 1000.0


def test_stop_prints_the_summary_once(capsys: pytest.CaptureFixture[str]) -> None:
    prof = Profiler(timer_only=True)
    prof.start()
    for _ in range(12):
        advance_clock(MS)
        prof.step()
    prof.stop()
    assert capsys.readouterr().out.startswith(TITLE)
    prof.stop()
    assert capsys.readouterr().out == ""


def test_the_timer_runs_beside_the_profiler(capsys: pytest.CaptureFixture[str]) -> None:
    def slow(prof: Profiler) -> None:
        advance_clock(1000 * MS)

    with Profiler(scheduler=(11, 12), on_trace_ready=slow) as prof:
        for _ in range(13):
            advance_clock(2 * MS)
            prof.step(5)
    # The time in which the trace was delivered is nobody's step.
    assert rows(capsys.readouterr().out)["batch_cost"] == [0.002] * 3


def test_a_step_of_no_length_divides_nothing_by_zero(timer: BenchmarkTimer) -> None:
    for _ in range(12):
        step(timer, 0, samples=1)
    assert timer.step_info() == ""
    assert rows(timer.stop())["ips"] == [0.0] * 3


def test_timer_only_records_nothing() -> None:
    with Profiler(timer_only=True) as prof:
        prof.step()
    assert prof.profiler_result is None
    assert prof.step_num == 0


def test_a_timer_may_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    prof = Profiler(timer_only=True)
    for ms in (1, 3):
        prof.start()
        for _ in range(11):
            advance_clock(ms * MS)
            prof.step()
        prof.stop()
        assert rows(capsys.readouterr().out)["batch_cost"] == [ms / 1000] * 3


# ---- other tasks in between


def test_the_timer_stands_still_while_another_data_set_is_read(timer: BenchmarkTimer) -> None:
    step(timer, 10, read_ms=1)
    read(timer, 50, OTHER_DATA)
    step(timer, 50)
    read(timer, 50, OTHER_DATA)
    step(timer, 10, read_ms=1)
    assert timer.step_info() == " reader_cost: 0.00100 s batch_cost: 0.01000 s ips: 100.000 steps/s"


def test_another_timer_within_a_step_is_left_out() -> None:
    outer, inner = BenchmarkTimer(), BenchmarkTimer()
    outer.start()
    step(outer, 10)
    advance_clock(4 * MS)
    inner.start()
    step(inner, 500)
    inner.stop()
    step(outer, 6)
    assert outer.step_info() == " batch_cost: 0.01000 s ips: 100.000 steps/s"
    assert inner.step_info() == " batch_cost: 0.50000 s ips: 2.000 steps/s"
    outer.stop()


def test_two_timers_around_the_same_steps_do_not_disturb_each_other() -> None:
    first, second = BenchmarkTimer(), BenchmarkTimer()
    first.start()
    second.start()
    for _ in range(3):
        advance_clock(10 * MS)
        first.step()
        second.step()
    second.stop()
    first.stop()
    assert first.step_info() == second.step_info() == " batch_cost: 0.01000 s ips: 100.000 steps/s"
