"""Everything at once and everything failing: no crash, no loss."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest

from recording import (
    chain_of,
    nothing_left_on,
    ranges_recorded,
    run_python,
    trace_of,
)
from robustness import ALL_OPTIONS, FailingSource, counts, in_threads, records_again
from stepscope import ProfilerAction, Session, profile, record_function, schedule
from stepscope._native import recording
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow


torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield
    assert records_again()


def train(weight: Any) -> None:
    with record_function("forward"):
        loss = (weight @ weight).relu().sum()
    loss.backward()


# ---- many at once


@pytest.mark.parametrize("options", [{}, ALL_OPTIONS], ids=["plain", "all options"])
def test_64_threads_record_at_once_and_nothing_is_lost(options: dict[str, Any]) -> None:
    rounds = 20

    def work(i: int) -> None:
        weight = torch.ones(2, 2, requires_grad=True)
        with record_function(f"thread {i}"):
            for _ in range(rounds):
                train(weight)

    with profile(**options) as profiler:
        in_threads(64, work)
    trace = profiler.trace
    names = ("forward", "aten::relu", "ReluBackward0", "MmBackward0")
    assert counts(trace, *names) == [64 * rounds] * len(names)
    assert trace.losses.events == 0
    rows = [row for row, name in enumerate(trace.names()) if name == "aten::relu"]
    for row in rows[::97]:
        thread = trace.tracks[trace.slices.track[row]].thread_name
        assert f"thread {thread.removeprefix('t')}" in chain_of(trace, row)


def test_profilers_inside_each_other_all_record() -> None:
    profilers = [profile(**(ALL_OPTIONS if depth % 2 else {})) for depth in range(6)]
    for depth, profiler in enumerate(profilers):
        profiler.start()
        with record_function(f"depth {depth}"):
            torch.ones(1).neg()
    for profiler in reversed(profilers):
        profiler.stop()
    for depth, profiler in enumerate(profilers):
        expected = [f"depth {d}" for d in range(depth, 6)]
        assert [n for n in profiler.trace.names() if n.startswith("depth")] == expected
        assert counts(profiler.trace, "aten::neg") == [6 - depth]


def test_profilers_that_overlap_without_nesting() -> None:
    first, second = profile(**ALL_OPTIONS), profile()
    first.start()
    torch.ones(1).neg()
    second.start()
    torch.ones(1).sign()
    first.stop()
    torch.ones(1).exp()
    second.stop()
    assert counts(first.trace, "aten::neg", "aten::sign", "aten::exp") == [1, 1, 0]
    assert counts(second.trace, "aten::neg", "aten::sign", "aten::exp") == [0, 1, 1]


def test_profilers_in_many_threads_while_another_runs() -> None:
    seen: dict[int, list[int]] = {}

    def work(i: int) -> None:
        for _ in range(5):
            with profile(**(ALL_OPTIONS if i % 2 else {})) as own, record_function(f"range {i}"):
                torch.ones(1).neg()
            seen.setdefault(i, []).extend(counts(own.trace, f"range {i}"))

    with profile() as around:
        in_threads(8, work)
    assert seen == {i: [1] * 5 for i in range(8)}
    assert counts(around.trace, "aten::neg", *(f"range {i}" for i in range(8))) == [40, *[5] * 8]


def test_one_profiler_is_started_in_one_thread_and_stopped_in_another() -> None:
    profiler = profile(**ALL_OPTIONS)
    in_threads(1, lambda _: profiler.start())
    torch.ones(1).neg()
    in_threads(1, lambda _: profiler.stop())
    assert counts(profiler.trace, "aten::neg") == [1]


@pytest.mark.slow
def test_a_recording_ends_while_threads_that_were_joined_still_go() -> None:
    """join() returns before a thread has left the system, and with it the recorder."""

    def work(_: int) -> None:
        with record_function("short"):
            pass

    for _ in range(200):
        with ranges_recorded() as session:
            in_threads(32, work)
        assert len(trace_of(session)) == 32


# ---- many in a row


@pytest.mark.slow
def test_threads_that_come_and_go_do_not_grow_the_process() -> None:
    done = run_python(
        """
        import ctypes, gc, os, pathlib, threading
        from stepscope import Session, record_function

        libc = ctypes.CDLL(None)

        def resident_bytes():
            gc.collect()
            libc.malloc_trim(0)  # what the allocator merely keeps is no growth
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")

        def work():
            with record_function("short"):
                pass

        def growth(rounds):
            before = resident_bytes()
            for _ in range(rounds):
                session = Session([])
                session.start()
                threads = [threading.Thread(target=work) for _ in range(64)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                session.stop()
            return resident_bytes() - before

        growth(50)
        print(min(growth(100) for _ in range(4)))
        """
    )
    assert done.returncode == 0, done.stderr
    # If 6,400 threads kept 1 KiB each, that were 6.25 MiB every time.
    assert int(done.stdout) < 2 * 1024 * 1024


@pytest.mark.slow
def test_200_cycles_do_not_grow_the_process() -> None:
    """Counted in the pages of a process of its own, after it has warmed up."""
    done = run_python(
        """
        import gc, json, os, pathlib, sys, torch
        from stepscope import profile, record_function

        def resident_bytes():
            gc.collect()
            pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")

        options = json.loads(sys.argv[1])
        weight = torch.ones(8, 8, requires_grad=True)

        def cycle(i):
            with profile(**options) as profiler, record_function(f"cycle {i}"):
                for _ in range(60):
                    (weight @ weight).relu().sum().backward()
            assert len(profiler.trace) > 1_000

        def growth(cycles):
            before = resident_bytes()
            for i in range(cycles):
                cycle(i)
            return resident_bytes() - before

        growth(60)
        print(min(growth(100), growth(100)))  # what only settles does not do so twice
        """,
        json.dumps(ALL_OPTIONS),
    )
    assert done.returncode == 0, done.stderr
    # If 100 cycles kept their events, those were 100,000 records of 64 bytes and more.
    assert int(done.stdout) < 2 * 1024 * 1024


def test_a_profiler_that_is_forgotten_while_it_runs_can_be_collected() -> None:
    forgotten = profile()
    forgotten.start()
    torch.ones(1).neg()
    forgotten.stop()
    del forgotten
    gc.collect()


# ---- failures at every stage


STAGES = ("prepare", "start", "stop", "collect", "describe", "overhead_ns")


@pytest.mark.parametrize("stage", STAGES)
def test_a_source_that_fails_leaves_nothing_on(stage: str) -> None:
    failing, healthy = FailingSource(stage), FailingSource("never")
    session = Session([healthy, failing, FailingSource("never")])
    with pytest.raises(ZeroDivisionError, match=f"in {stage}"):
        session.start()
        session.stop()
        assert session.trace is not None  # which is built now
    assert not recording()
    assert not session.running
    assert not (failing.is_on or healthy.is_on)
    session.stop()  # harmless


@pytest.mark.parametrize("failing_step", range(6))
def test_a_schedule_that_fails_leaves_what_was_recorded(failing_step: int) -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)

    def failing(step: int) -> ProfilerAction:
        if step == failing_step:
            raise ZeroDivisionError(f"at step {step}")
        return plan(step)

    with pytest.raises(ZeroDivisionError, match=f"at step {failing_step}"):  # noqa: SIM117
        with profile(schedule=failing) as profiler:
            for _ in range(6):
                torch.ones(1).neg()
                profiler.step()
    assert not recording()
    if failing_step >= 3:  # it was recording, or had been
        assert counts(profiler.trace, "aten::neg")[0] == min(failing_step, 4) - 2


def test_a_callback_that_fails_at_each_cycle_does_not_end_the_run() -> None:
    delivered: list[int] = []

    def fail(profiler: profile) -> None:
        delivered.extend(counts(profiler.trace, "aten::neg"))
        raise ZeroDivisionError("in the callback")

    profiler = profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=3), on_trace_ready=fail)
    profiler.start()
    failures = 0
    for _ in range(6):
        torch.ones(1).neg()
        try:
            profiler.step()
        except ZeroDivisionError:
            failures += 1
    profiler.stop()
    assert (failures, delivered) == (3, [1, 1, 1])


@pytest.mark.parametrize("options", [{}, ALL_OPTIONS], ids=["plain", "all options"])
def test_an_exception_inside_forward(options: dict[str, Any]) -> None:
    class Broken(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            x = x.neg()
            return x @ torch.ones(7)  # shapes that do not fit

    model = torch.nn.Sequential(torch.nn.Identity(), Broken())
    with pytest.raises(RuntimeError, match="size"):  # noqa: SIM117
        with profile(**options) as profiler, record_function("around"):
            model(torch.ones(3))
    trace = profiler.trace
    assert counts(trace, "aten::neg", "around") == [1, 1]
    # What the exception left has ended; the test's own frames have not.
    assert trace.slices.flags[trace.slices.kind != SliceKind.PYTHON].sum() == 0


@pytest.mark.parametrize("options", [{}, ALL_OPTIONS], ids=["plain", "all options"])
def test_an_exception_inside_a_backward_hook(options: dict[str, Any]) -> None:
    weight = torch.ones(3, requires_grad=True)
    middle = weight.exp()

    def hook(gradient: Any) -> None:
        raise ZeroDivisionError("in the hook")

    middle.register_hook(hook)
    with pytest.raises(ZeroDivisionError, match="in the hook"), profile(**options) as profiler:
        middle.sum().backward()
    assert counts(profiler.trace, "SumBackward0") == [1]


def test_an_exception_inside_a_function_of_autograd() -> None:
    class Broken(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise ZeroDivisionError("in backward")

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ZeroDivisionError, match="in backward"), profile() as profiler:
        Broken.apply(x).sum().backward()
    assert counts(profiler.trace, "BrokenBackward") == [1]


def test_an_exception_while_a_generator_holds_a_range() -> None:
    def items() -> Iterator[int]:
        with record_function("in the generator"):
            yield 1
            yield 2

    with pytest.raises(ZeroDivisionError), profile() as profiler:
        for _ in items():
            raise ZeroDivisionError
    assert counts(profiler.trace, "in the generator") == [1]
