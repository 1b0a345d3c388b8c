"""What threads do is told by the kernel: whether they run, and what they wait for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sampling import Sampling, run_sampling, sampling, seen
from stepscope.trace.kinds import ThreadState, WaitReason

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

LOOKS = 200

WAITING = {
    "sleep": (WaitReason.SLEEP, "<native call time.sleep>"),
    "select_nothing": (WaitReason.SLEEP, "<native call select.select>"),
    "lock": (WaitReason.LOCK, "<native call gate.acquire>"),
    "timed_lock": (WaitReason.LOCK, "<native call gate.acquire>"),
    "with_lock": (WaitReason.LOCK, "<native call gate.__enter__>"),
    "event": (WaitReason.LOCK, "<native call waiter.acquire>"),
    "pipe": (WaitReason.PIPE, "<native call os.read>"),
    "full_pipe": (WaitReason.PIPE, "<native call os.write>"),
    "a_socket": (WaitReason.SOCKET, "<native call here.recv>"),
    "connection": (WaitReason.SOCKET, "<native call self._accept>"),
    "timed_socket": (WaitReason.SOCKET, "<native call timed.recv>"),
    "process": (WaitReason.PROCESS, "<native call os.waitpid>"),
    "poll": (WaitReason.POLL, "<native call select.select>"),
    "epoll": (WaitReason.POLL, "<native call waiter.poll>"),
}


@pytest.fixture(scope="module")
def waiting() -> dict[str, tuple[int, int, str]]:
    """Return state, reason and innermost frame of threads that wait, by what they do."""
    done = run_sampling("import waiting_threads; waiting_threads.main()")
    assert done.returncode == 0, done.stderr
    output: dict[str, tuple[int, int, str]] = json.loads(done.stdout.splitlines()[-1])
    return output


@pytest.mark.parametrize("what", WAITING)
def test_what_a_thread_waits_for(what: str, waiting: dict[str, tuple[int, int, str]]) -> None:
    state, wait, frame = waiting[what]
    assert (ThreadState(state), WaitReason(wait), frame) == (ThreadState.BLOCKED, *WAITING[what])


def states(trace: Trace, thread: str, function: str) -> set[ThreadState]:
    """Return those of the samples that have a function anywhere on their stack."""
    return {
        look.state
        for look in seen(trace, thread)
        if any(frame.endswith(f": {function}") for frame in look.frames)
    }


def count(recording: Sampling) -> int:
    total = 0
    while not recording.has_seen(LOOKS):
        for i in range(1000):
            total += i * i
    return total


def add_up(recording: Sampling) -> int:
    numbers = list(range(300_000))
    total = 0
    while not recording.has_seen(LOOKS):
        total = sum(numbers)
    return total


def test_python_code_runs_python() -> None:
    """In a program with one thread: a thread of the test runner may take the GIL."""
    code = """
import json
from sampling import sampling, seen
def count(recording):
    total = 0
    while not recording.has_seen(200):
        for i in range(1000):
            total += i * i
with sampling() as recording:
    count(recording)
inside = [
    each.state.name for each in seen(recording.trace, "MainThread")
    if any(frame.endswith(": count") for frame in each.frames)
]
print(json.dumps(sorted(set(inside))))
"""
    done = run_sampling(code)
    assert done.returncode == 0, done.stderr
    states = {ThreadState[name] for name in json.loads(done.stdout)}
    assert ThreadState.PYTHON in states
    # Beside others, it may have to wait for a core.
    assert states <= {ThreadState.PYTHON, ThreadState.NATIVE, ThreadState.READY}


def test_a_function_written_in_c_is_the_innermost_frame_while_it_runs() -> None:
    with sampling() as recording:
        add_up(recording)
    inside = [
        look
        for look in seen(recording.trace, "MainThread")
        if look.frames and look.frames[0] == "<native call sum>"
    ]
    assert {look.state for look in inside} <= {ThreadState.NATIVE, ThreadState.READY}
    assert ThreadState.NATIVE in {look.state for look in inside}
    assert all(look.frames[1].endswith(": add_up") for look in inside)


def test_threads_that_take_turns_wait_for_the_gil() -> None:
    all_run = threading.Barrier(3)

    def count_together() -> None:
        all_run.wait()
        count(recording)

    with sampling() as recording:
        threads = [threading.Thread(target=count_together, name=f"turn {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    turns = [states(recording.trace, f"turn {i}", "count") for i in range(3)]
    assert ThreadState.GIL in set.union(*turns)
    assert ThreadState.PYTHON in set.union(*turns)


def test_native_code_without_the_gil_runs_beside_python() -> None:
    hashlib = pytest.importorskip("hashlib")
    data = bytes(30_000_000)

    def work(recording: Sampling) -> None:
        while not recording.has_seen(LOOKS):
            hashlib.sha256(data)

    with sampling() as recording:
        thread = threading.Thread(target=work, args=(recording,), name="hashing")
        thread.start()
        count(recording)
        thread.join()
    inside = [look for look in seen(recording.trace, "hashing") if look.frames]
    assert (ThreadState.NATIVE, "<native call hashlib.sha256>") in {
        (look.state, look.frames[0]) for look in inside
    }


SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("spins", flush=True)
while True:
    pass
"""


WITHOUT_A_CORE_NS = 500_000_000


def test_a_thread_that_was_woken_and_has_no_core_no_longer_waits() -> None:
    """Its frames are those of the wait that has ended, and no more of it than the kernel counts.

    How much of it is seen depends on when the sampler itself gets a core.
    """
    core, had_none_ns = min(os.sched_getaffinity(0)), 0

    def had_none() -> int:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])

    def sleep_often() -> None:
        nonlocal had_none_ns
        os.sched_setaffinity(0, {core})  # of this thread alone
        # Of the lowest priority it gets a core late, whatever else the machine does.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        before_ns = had_none()
        for _ in range(100):
            time.sleep(0.01)
            had_none_ns = had_none() - before_ns
            if had_none_ns > WITHOUT_A_CORE_NS:
                break

    command = [sys.executable, "-S", "-c", SPIN, str(core)]
    neighbours = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    try:
        for look in neighbours:
            assert look.stdout is not None
            look.stdout.readline()
        with sampling() as recording:
            thread = threading.Thread(target=sleep_often, name="woken")
            thread.start()
            thread.join()
    finally:
        for look in neighbours:
            look.kill()
            look.communicate()
    seen_ready_ns = sum(
        look.duration_ns
        for look in seen(recording.trace, "woken")
        if look.state == ThreadState.READY and look.frames[:1] == ("<native call time.sleep>",)
    )
    if not had_none_ns:
        pytest.skip("the kernel does not count it")
    assert 0 < seen_ready_ns < 1.5 * had_none_ns


def test_running_time_is_the_cpu_time_that_was_used() -> None:
    """As much running time is sampled as the thread's clock has counted, whoever else runs."""
    code = """
import json, threading, time
from sampling import sampling, seen
from stepscope.trace.kinds import ThreadState
used = {}
def work(recording):
    began = time.thread_time_ns()
    while not recording.has_seen(8000):
        sum(range(1000))
    used["ns"] = time.thread_time_ns() - began
with sampling() as recording:
    threads = [threading.Thread(target=work, args=(recording,), name="worker")]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
running = {ThreadState.PYTHON, ThreadState.NATIVE}
sampled = sum(e.duration_ns for e in seen(recording.trace, "worker") if e.state in running)
print(json.dumps([sampled, used["ns"]]))
"""
    done = run_sampling(code)
    assert done.returncode == 0, done.stderr
    sampled_ns, used_ns = json.loads(done.stdout)
    assert sampled_ns == pytest.approx(used_ns, rel=0.25)
