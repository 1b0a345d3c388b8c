"""The timeline of Python calls beside threads, forks, other profilers and PyTorch."""

from __future__ import annotations

import cProfile
import json
import os
import re
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from python_frames import (
    MONITORED,
    calls_below,
    calls_recorded,
    frames_of,
    named,
    place,
)
from recording import (
    chain_of,
    row_of,
    run_python,
    thread_of,
    trace_of,
)
from stepscope import StackMode, notices, profile, record_function

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_calls_left_on")


# ---- threads and forks


def test_threads_that_run_already_and_threads_that_start() -> None:
    go, going = threading.Event(), threading.Event()

    def before() -> None:
        going.set()
        go.wait()
        in_old_thread()

    def in_old_thread() -> None: ...
    def in_new_thread() -> None: ...

    old = threading.Thread(target=before, name="old")
    old.start()
    going.wait()
    with calls_recorded() as session:
        go.set()
        old.join()
        new = threading.Thread(target=in_new_thread, name="new")
        new.start()
        new.join()
    trace = trace_of(session)
    old_row, new_row = (row_of(trace, named(f)) for f in (in_old_thread, in_new_thread))
    assert (thread_of(trace, old_row), thread_of(trace, new_row)) == ("old", "new")
    # Of what ran already, the line at which it was.
    assert chain_of(trace, old_row)[1].endswith(": before")
    began = row_of(trace, chain_of(trace, old_row)[1])
    assert trace.slices.start_ns[began] == trace.info.start_ns
    assert not trace.slices.flags[began]
    started = chain_of(trace, new_row)
    assert [name.rpartition(" ")[2] for name in started[1:4]] == [
        "run",
        "_bootstrap_inner",
        "_bootstrap",
    ]
    bootstrap = [row for row, name in enumerate(trace.names()) if name == started[3]]
    assert all(trace.slices.start_ns[row] > trace.info.start_ns for row in bootstrap[1:])


def test_sixty_four_threads_at_once() -> None:
    together = threading.Barrier(64)

    def work() -> None:
        together.wait()
        for _ in range(20):
            leaf()

    def leaf() -> None: ...

    with calls_recorded() as session:
        threads = [threading.Thread(target=work) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = trace_of(session)
    rows = [row for row, name in enumerate(trace.names()) if name == named(leaf)]
    assert len(rows) == 64 * 20
    assert all(trace.name_of(trace.slices.parent[row]) == named(work) for row in rows)
    assert len({int(trace.slices.track[row]) for row in rows}) == 64


def test_recordings_begin_and_end_while_threads_are_busy() -> None:
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set():
            leaf()

    def leaf() -> None: ...

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            with calls_recorded() as outer, calls_recorded() as inner:
                leaf()
            for session in (outer, inner):
                slices = trace_of(session).slices
                assert (slices.start_ns >= trace_of(session).info.start_ns).all()
                assert (slices.duration_ns >= 0).all()
    finally:
        finished.set()
        for thread in threads:
            thread.join()


def test_a_forked_child_is_clean() -> None:
    def work() -> None: ...

    with calls_recorded() as session:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert sys.getprofile() is None
                work()
                with calls_recorded() as own:
                    work()
                status = 0 if list(trace_of(own).names()).count(named(work)) == 1 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        work()
    assert list(trace_of(session).names()).count(named(work)) == 1


# ---- beside other profilers


@pytest.mark.skipif(MONITORED, reason="no profile function is needed")
def test_another_profiler_keeps_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_shown", set())

    def work() -> None:
        with record_function("in it"):
            pass

    other = cProfile.Profile()
    other.enable()
    with calls_recorded() as session:
        work()
    other.disable()
    assert capsys.readouterr().err.count("another profiler (sys.setprofile, cProfile)") == 1
    trace = trace_of(session)
    assert list(trace.names()) == ["in it"]
    assert frames_of(trace, 0)[0] == place(work, 1)
    assert "no calls: another profiler" in trace.info.sources["python"]
    assert any(entry.code is work.__code__ for entry in other.getstats())


@pytest.mark.skipif(not MONITORED, reason="a profile function is needed")
def test_another_profiler_works_beside_us() -> None:
    def work() -> None: ...

    other = cProfile.Profile()
    other.enable()
    with calls_recorded() as session:
        work()
    other.disable()
    assert list(trace_of(session).names()).count(named(work)) == 1
    assert any(entry.code is work.__code__ for entry in other.getstats())


def test_a_profiler_that_comes_later_stays() -> None:
    seen: list[str] = []

    def other(_frame: object, event: str, _arg: object) -> None:
        seen.append(event)

    def work() -> None: ...

    with calls_recorded():
        work()
        sys.setprofile(other)
    assert sys.getprofile() is other
    sys.setprofile(None)
    assert "call" in seen
    with calls_recorded() as session:
        work()
    assert list(trace_of(session).names()).count(named(work)) == 1


@pytest.mark.skipif(MONITORED, reason="new threads need no hook")
def test_threads_that_begin_with_a_profiler_keep_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_shown", set())

    def other(*_: object) -> None: ...

    threading.setprofile(other)
    try:
        with calls_recorded():
            pass
        assert threading.getprofile() is other
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    assert "threads that start from now on" in capsys.readouterr().err


@pytest.mark.skipif(not MONITORED, reason="sys.monitoring is not used")
def test_when_no_place_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    taken = [i for i in range(6) if sys.monitoring.get_tool(i) is None]
    for i in taken:
        sys.monitoring.use_tool_id(i, f"tool {i}")
    try:
        with calls_recorded() as session:
            pass
    finally:
        for i in taken:
            sys.monitoring.free_tool_id(i)
    assert len(trace_of(session)) == 0
    assert "all of sys.monitoring's places" in capsys.readouterr().err


# ---- PyTorch


def test_the_names_are_those_of_torch(tmp_path: Path) -> None:
    """But for addresses, which say nothing of the function."""
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2)

    def work() -> None:
        inner()
        [function(tensor) for function in (torch.neg, lambda x: x.exp())]
        torch.nn.functional.softmax(tensor, 0)

    def inner() -> None:
        len([1].copy())
        torch.add(tensor, tensor)

    with torch.profiler.profile(with_stack=True) as theirs:
        work()
    theirs.export_chrome_trace(str(tmp_path / "torch.json"))
    with profile(with_stack=StackMode.ALL_CALLS) as ours:
        work()
    text = (tmp_path / "torch.json").read_text("utf-8", "replace")  # torch 2.6 writes garbage
    events = json.loads(text, strict=False)["traceEvents"]
    calls = [e for e in events if e.get("cat") == "python_function"]
    (top,) = [call for call in calls if call["name"] == named(work)]
    end = top["ts"] + top["dur"]
    expected = [
        re.sub(r" at 0x\w+", "", call["name"])
        for call in sorted(calls, key=lambda call: call["args"]["Python id"])
        if top["ts"] < call["ts"] < end and call["args"]["Python id"] > top["args"]["Python id"]
    ]
    names = [name for name, _ in calls_below(ours.trace, named(work)) if "aten::" not in name]
    assert names == expected


def test_operators_stand_inside_of_the_call_that_ran_them() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.ones(2)

    def work() -> None:
        torch.add(tensor, tensor)

    with profile(with_stack=True) as profiler:
        work()
    trace = profiler.trace
    assert chain_of(trace, row_of(trace, "aten::add"))[:3] == (
        "aten::add",
        "<built-in method add of type object>",
        named(work),
    )


def test_a_program_may_end_while_calls_are_recorded() -> None:
    done = run_python(
        """
        from stepscope.record.session import Session
        from stepscope.frameworks.python.calls import PythonCalls
        import atexit, threading
        Session([PythonCalls()]).start()
        atexit.register(lambda: len(""))
        def forever():
            while True:
                len("")
        threading.Thread(target=forever, daemon=True).start()
        class Late:
            def __del__(self):
                len("")
        late = Late()
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
