"""Programs that end in every way, and Ctrl-C at every moment: the trace is delivered."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from recording import (
    nothing_left_on,
    run_python,
    start_python,
)
from robustness import ALL_OPTIONS, FailingSource, counts, in_threads, records_again
from stepscope import Session, profile, record_function, schedule
from stepscope._native import recording

if TYPE_CHECKING:
    from collections.abc import Iterator


torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield
    assert records_again()


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("raise SystemExit('words')", 1), ("1 / 0", 1)],
)
def test_leaving_delivers_the_trace_first(ending: str, code: int) -> None:
    done = run_python(program(ending))
    assert (done.stdout, done.returncode) == ("saved True True\n", code)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.fixture(autouse=True)
def python_hears_of_ctrl_c() -> None:
    """Another handler, left there by whatever ran before, would end this process instead."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
