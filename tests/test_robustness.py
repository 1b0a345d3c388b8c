"""Everything at once, everything failing, and endings of all kinds: no crash, no loss."""

from __future__ import annotations

import gc
import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from recording import (
    chain_of,
    nothing_left_on,
    ranges_recorded,
    run_python,
    start_python,
    trace_of,
)
from stepscope import ProfilerAction, Session, profile, record_function, schedule
from stepscope._native import recording
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.trace.model import Trace

torch = pytest.importorskip("torch")

ALL_OPTIONS: dict[str, Any] = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
    "with_flops": True,
}


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield
    assert records_again()


def records_again() -> bool:
    """Tell whether a new profiler still gets what it should."""
    with profile() as profiler, record_function("again"):
        torch.ones(1).neg()
    names = list(profiler.trace.names())
    return names.count("again") == names.count("aten::neg") == 1


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run threads that begin together, and hear of what fails in them."""
    together = threading.Barrier(count)
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            together.wait()
            work(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,), name=f"t{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def train(weight: Any) -> None:
    with record_function("forward"):
        loss = (weight @ weight).relu().sum()
    loss.backward()


def counts(trace: Trace, *names: str) -> list[int]:
    all_names = list(trace.names())
    return [all_names.count(name) for name in names]


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


def test_threads_that_come_and_go_do_not_grow_the_process() -> None:
    done = run_python(
        """
        import os, pathlib, threading
        from stepscope import Session, record_function

        def resident_bytes():
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
        print(min(growth(100), growth(100)))
        """
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * 1024 * 1024


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
    # If 100 cycles kept their events, those were 100,000 records of 56 bytes and more.
    assert int(done.stdout) < 2 * 1024 * 1024


def test_a_profiler_that_is_forgotten_while_it_runs_can_be_collected() -> None:
    forgotten = profile()
    forgotten.start()
    torch.ones(1).neg()
    forgotten.stop()
    del forgotten
    gc.collect()


# ---- failures at every stage


class FailingSource:
    """A source that fails in one of its methods."""

    name = "failing"

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self.is_on = False

    def _reach(self, stage: str) -> None:
        if stage == self._stage:
            raise ZeroDivisionError(f"in {stage}")

    def prepare(self) -> None:
        self._reach("prepare")

    def start(self) -> None:
        self._reach("start")
        self.is_on = True

    def stop(self) -> None:
        self.is_on = False
        self._reach("stop")

    def collect(self) -> None:
        self._reach("collect")

    def describe(self) -> str:
        self._reach("describe")
        return "it fails"

    def overhead_ns(self) -> float:
        self._reach("overhead_ns")
        return 0.0


STAGES = ("prepare", "start", "stop", "collect", "describe", "overhead_ns")


@pytest.mark.parametrize("stage", STAGES)
def test_a_source_that_fails_leaves_nothing_on(stage: str) -> None:
    failing, healthy = FailingSource(stage), FailingSource("never")
    session = Session([healthy, failing, FailingSource("never")])
    with pytest.raises(ZeroDivisionError, match=f"in {stage}"):
        session.start()
        session.stop()
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


# ---- endings

PROGRAM = """
import signal, sys, threading, time, torch
from stepscope import profile, record_function

def save(profiler):
    names = list(profiler.trace.names())
    print("saved", names.count("work") >= 3, names.count("aten::neg") >= 3, flush=True)

def work():
    with record_function("work"):
        torch.ones(1).neg()

with profile(on_trace_ready=save, {options}):
    for _ in range(3):
        work()
    {ending}
print("not reached")
"""


def program(ending: str, options: str = "") -> str:
    return PROGRAM.format(ending=ending, options=options)


@pytest.mark.parametrize("options", ["", "with_stack=True, profile_memory=True"])
def test_ctrl_c_delivers_the_trace_and_then_ends_the_program(options: str) -> None:
    process = start_python(program("print('ready', flush=True)\n    while True: work()", options))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert out == "saved True True\n"
    assert err.endswith("KeyboardInterrupt\n")
    assert process.returncode == -signal.SIGINT


def test_ctrl_c_while_threads_work() -> None:
    ending = (
        "def loop():\n"
        "        while True:\n"
        "            with record_function('busy'): pass\n"
        "    for _ in range(4): threading.Thread(target=loop, daemon=True).start()\n"
        "    print('ready', flush=True)\n"
        "    while True: work()"
    )
    process = start_python(program(ending))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert out == "saved True True\n"
    assert err.endswith("KeyboardInterrupt\n")
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("ending", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("raise SystemExit('words')", 1), ("1 / 0", 1)],
)
def test_leaving_delivers_the_trace_first(ending: str, code: int) -> None:
    done = run_python(program(ending))
    assert (done.stdout, done.returncode) == ("saved True True\n", code)


@pytest.mark.parametrize("options", ["", "with_stack=True, profile_memory=True"])
def test_daemon_threads_that_work_until_the_very_end(options: str) -> None:
    """They call no operator at the end: torch itself aborts when such a thread is cut off."""
    done = run_python(
        f"""
        import threading, torch
        from stepscope import profile, record_function
        started = threading.Barrier(5)
        def work():
            torch.ones(1).neg()
            started.wait()
            while True:
                with record_function("busy"):
                    str(1)
        profiler = profile({options})
        profiler.start()
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        started.wait()
        torch.ones(1).neg()
        # neither stopped nor joined
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_profiler_that_is_stopped_by_an_exit_handler() -> None:
    done = run_python(
        """
        import atexit, torch
        from stepscope import profile
        profiler = profile(profile_memory=True, with_stack=True)
        profiler.start()
        @atexit.register
        def report():
            profiler.stop()
            print(list(profiler.trace.names()).count("aten::neg"))
        torch.ones(1).neg()
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_thread_that_ends_the_recording_of_a_busy_program() -> None:
    """A watchdog stops what the main thread is in the middle of."""
    finished = threading.Event()
    profiler = profile(**ALL_OPTIONS)

    def watch(i: int) -> None:
        if i:
            while not finished.is_set():
                with record_function("busy"):
                    torch.ones(2).neg().sum()
        else:
            profiler.start()
            for _ in range(50):
                torch.ones(1).sign()
            profiler.stop()
            finished.set()

    in_threads(4, watch)
    assert counts(profiler.trace, "aten::sign") == [50]


# ---- Ctrl-C at a bad moment


class InterruptingSource(FailingSource):
    """A source in one of whose methods the user presses Ctrl-C."""

    def _reach(self, stage: str) -> None:
        if stage == self._stage:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("stage", ["prepare", "start"])
def test_ctrl_c_while_it_starts_leaves_nothing_on(stage: str) -> None:
    source = InterruptingSource(stage)
    session = Session([source])
    with pytest.raises(KeyboardInterrupt):
        session.start()
    assert not (recording() or session.running or source.is_on)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("stage", ["stop", "collect", "describe"])
def test_ctrl_c_while_it_stops_waits_until_the_trace_is_delivered(stage: str) -> None:
    delivered: list[list[str]] = []
    session = Session(
        [InterruptingSource(stage)],
        on_trace=lambda: delivered.append(list(session.trace.names() if session.trace else ())),
    )
    session.start()
    with record_function("work"):
        pass
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    assert delivered == [["work"]]
    assert not (recording() or session.running)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_callback_waits_for_it_and_a_second_does_not() -> None:
    reached: list[str] = []

    def deliver(presses: int) -> None:
        reached.append("begun")
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)
        reached.append("ended")

    for presses, expected in ((1, ["begun", "ended"]), (2, ["begun"])):
        reached.clear()
        with pytest.raises(KeyboardInterrupt), profile(on_trace_ready=lambda _: deliver(presses)):  # noqa: B023
            pass
        assert reached == expected


def test_ctrl_c_between_steps_goes_on_to_the_next() -> None:
    profiler = profile(schedule=schedule(wait=0, warmup=1, active=2, repeat=1))
    profiler.start()
    profiler._session.recorder._sources = (  # what a step of the schedule starts
        *profiler._session.recorder._sources,
        InterruptingSource("start"),
    )
    with pytest.raises(KeyboardInterrupt):
        profiler.step()
    assert profiler.step_num == 1
    torch.ones(1).neg()
    profiler.stop()
    assert counts(profiler.trace, "aten::neg") == [1]


def test_a_programs_own_handler_hears_it_too() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        session = Session([InterruptingSource("collect")])
        session.start()
        session.stop()
        assert heard == [signal.SIGINT]
        assert session.trace is not None
    finally:
        signal.signal(signal.SIGINT, before)
