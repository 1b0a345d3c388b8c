"""Programs whose stacks, threads and code come and go while they are read: nothing breaks."""

from __future__ import annotations

import re

import pytest

import hostile_programs
from recording import nothing_left_on
from sampling import sampling, seen

STEPS = 5
LOOKS = 2_000


@pytest.mark.parametrize("name", hostile_programs.PROGRAMS)
def test_a_hostile_program(name: str) -> None:
    if name == "greenlets":
        pytest.importorskip("greenlet")
    steps = hostile_programs.PROGRAMS[name]()
    with nothing_left_on(), sampling() as recording:
        done = 0
        while done < STEPS or not recording.has_seen(LOOKS):
            next(steps)
            done += 1
    trace = recording.trace
    samples = [each for each in seen(trace) if each.frames]
    assert len(samples) > STEPS
    # What was read is what there is: a place in a file, a call, or where frames are left out.
    shown = re.compile(r".+\(\d+\): .+|<native call .+>|<frames that are left out>", re.DOTALL)
    odd = {frame for each in samples for frame in each.frames if not shown.fullmatch(frame)}
    assert not odd
    functions = {frame for each in samples for frame in each.frames}
    assert any("hostile_programs.py" in frame or "<made" in frame for frame in functions)


def test_made_code_is_seen_under_names_that_were_made() -> None:
    steps = hostile_programs.coming_and_going()
    with sampling() as recording:
        while not recording.has_seen(LOOKS):
            next(steps)
    frames = {frame for each in seen(recording.trace) for frame in each.frames if "<made" in frame}
    for frame in frames:
        match = re.fullmatch(r"<made (\d+)>\((\d+)\): (made|<module>)", frame)
        assert match, frame
        # The source has as many empty lines as its number says.
        first = int(match[1]) % 50 + 2 if match[3] == "made" else 1
        assert int(match[2]) in {1, first, first + 1}, frame
