"""The sampler at its limits: little memory, pauses, forks, and a program that ends under it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sampling import Sampling, run_sampling, sampling, seen
from stepscope.record.limits import Keep, MemoryLimit


def spin(recording: Sampling, times: int = 60) -> None:
    while not recording.has_seen(times):
        pass


@pytest.mark.parametrize("keep", Keep)
def test_a_memory_limit_is_kept_and_what_is_lost_is_counted(keep: Keep) -> None:
    limit = MemoryLimit(1 << 17, keep)
    with sampling(limit) as recording:
        threads = [threading.Thread(target=spin, args=(recording, 6_000)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = recording.trace
    assert 0 < len(trace.samples) * 32 <= limit.bytes
    assert trace.info.losses.events > 0
    assert "lost" in trace.info.sources["sampler"]


def test_nothing_is_kept_of_an_earlier_recording() -> None:
    recording = Sampling()
    for _ in range(2):
        recording.start()
        spin(recording, 20)
        recording.stop()
    trace = recording.trace
    assert trace.samples.time_ns.min() >= trace.info.start_ns - 10**8


def test_two_recordings_at_once_each_get_their_own() -> None:
    with sampling() as outer, sampling() as inner:
        spin(inner)
    assert len(outer.trace.samples) > 0
    assert len(inner.trace.samples) > 0


def test_a_pause_is_left_out() -> None:
    recording = Sampling()
    recording.start()
    spin(recording, 20)
    recording._recorder.pause()
    total = sum(range(100))
    recording._recorder.resume()
    spin(recording, 20)
    recording.stop()
    assert total == 4950
    assert len(recording.trace.samples) > 20


def test_the_program_sees_none_of_our_files() -> None:
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    with sampling() as recording:
        spin(recording)
        inside = len(list(files.iterdir()))
    assert inside == before


def test_code_objects_are_destroyed_as_before() -> None:
    code = """
import ctypes
from sampling import sampling
def slot():
    return (ctypes.c_void_p * 12).from_address(id(type((lambda: 0).__code__)))[6]
before = slot()
with sampling() as recording:
    assert slot() != before
    while not recording.has_seen(5): pass
assert slot() == before
print("same")
"""
    done = run_sampling(code)
    assert done.stdout.strip() == "same", done.stderr


def test_a_forked_child_is_clean_and_can_sample_itself() -> None:
    code = """
import os, sys
from sampling import Sampling, sampling
recording = Sampling()
recording.start()
while not recording.has_seen(20): pass
child = os.fork()
if child == 0:
    assert len(os.listdir("/proc/self/task")) == 1
    recording.source.stop()
    assert recording.source.collect() is None
    with sampling() as own:
        while not own.has_seen(20): pass
    assert len(own.trace.samples)
    del recording
    sys.exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
recording.stop()
assert len(recording.trace.samples)
print(status)
"""
    done = run_sampling(code)
    assert done.stdout.strip() == "7", done.stderr


@pytest.mark.parametrize(
    "ending",
    ["", "sys.exit(3)", "os._exit(3)", "os.execv(sys.executable, [sys.executable, '-c', ''])"],
)
def test_a_program_may_end_while_it_is_sampled(ending: str) -> None:
    code = f"""
import os, sys, threading
from sampling import Sampling
recording = Sampling()
recording.start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
while not recording.has_seen(20): pass
{ending}
"""
    done = run_sampling(code)
    assert done.returncode == (3 if "exit" in ending else 0), done.stderr
    assert not done.stderr


def test_memory_read_in_the_slower_way_shows_the_same() -> None:
    with sampling(way="file") as recording:
        spin(recording)
    trace = recording.trace
    assert "/proc/self/mem" in trace.info.sources["sampler"]
    assert any("spin" in frame for look in seen(trace) for frame in look.frames)
