"""What samplers leave in the stream of their process: each its own, under its own names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recording import run_python

if TYPE_CHECKING:
    from pathlib import Path

# Each function goes on until the stream has samples of it.
SAMPLED = """
import os, sys, time
from stepscope import _native
from stepscope.frameworks.python.sampler import Sampler

def streamed():
    _native.flush_stream()
    found = _native.RecoveredStream("", sys.argv[1]).sampled(lambda *_: "")
    stacks, names = found["stacks"], set()
    for row in set(found["samples"]["stack"].tolist()):
        while row:
            names.add(stacks["texts"][stacks["frame"][row]].rpartition(" ")[2])
            row = stacks["parent"][row]
    return names

def wait_for(name):
    until = time.monotonic() + 60
    while name not in streamed() and time.monotonic() < until:
        pass

def first():
    wait_for("first")

def second():
    wait_for("second")

_native.start_stream("", sys.argv[1], 0)
sampler = Sampler(1_000_000)
sampler.prepare()
sampler.start()
first()
{next}
second()
print(sorted({{"first", "second"}} & streamed()))
sampler.stop()
"""
IN_A_CHILD = """
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
sys.argv[1] += ".child"
_native.start_stream("", sys.argv[1], 0)
sampler = Sampler(1_000_000)
sampler.start()
second()
print(sorted(streamed() & {"first", "second"}), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    "following",
    [
        "sampler.so_far()",
        "sampler.stop(); sampler.collect(); sampler.start()",
        "sampler.stop(); kept = sampler.hand_over(); sampler.start()",
    ],
    ids=["after a capture", "after the end", "while the first is kept"],
)
def test_one_sampler_after_another_is_streamed(tmp_path: Path, following: str) -> None:
    done = run_python(SAMPLED.format(next=following), str(tmp_path / "1.segments"))
    assert done.stdout == "['first', 'second']\n", done.stderr


def test_what_was_seen_last_is_streamed_when_the_sampler_stops(tmp_path: Path) -> None:
    last = """
def last():
    seen = sampler.progress()[1] + 20
    while sampler.progress()[1] < seen:
        pass

last()
sampler.stop()
print(sorted(streamed() & {"first", "last"}), flush=True)
os._exit(0)
"""
    done = run_python(SAMPLED.format(next=last), str(tmp_path / "1.segments"))
    assert done.stdout == "['first', 'last']\n", done.stderr


def test_the_sampler_of_a_forked_child_is_streamed_too(tmp_path: Path) -> None:
    program = SAMPLED.format(next=IN_A_CHILD)
    done = run_python(program, str(tmp_path / "1.segments"))
    assert done.stdout == "['second']\n", done.stderr
