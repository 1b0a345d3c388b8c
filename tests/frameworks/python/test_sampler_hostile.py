"""Programs whose stacks, threads and code come and go while they are read: nothing breaks.

Each runs in a process of its own: a process that has had two interpreters no longer knows who holds
the GIL, and torch refuses to run backward there.
"""

from __future__ import annotations

import json
import re

import pytest

import hostile_programs
from sampling import run_sampling

STEPS = 5
LOOKS = 2_000

CODE = """
import json
import hostile_programs
from recording import nothing_left_on
from sampling import sampling, seen

steps = hostile_programs.PROGRAMS[{name!r}]()
with nothing_left_on(), sampling() as recording:
    done = 0
    while done < {steps} or not recording.has_seen({looks}):
        next(steps)
        done += 1
print(json.dumps([each.frames for each in seen(recording.trace) if each.frames]))
"""


def sampled(name: str) -> list[list[str]]:
    """Return the stacks that were seen in a program, the innermost frame first."""
    done = run_sampling(CODE.format(name=name, steps=STEPS, looks=LOOKS))
    assert done.returncode == 0, done.stderr
    stacks: list[list[str]] = json.loads(done.stdout)
    return stacks


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile_programs.PROGRAMS)
def test_a_hostile_program(name: str) -> None:
    if name == "greenlets":
        pytest.importorskip("greenlet")
    stacks = sampled(name)
    assert len(stacks) > STEPS
    # What was read is what there is: a place in a file, a call, or where frames are left out.
    shown = re.compile(r".+\(\d+\): .+|<native call .+>|<frames that are left out>", re.DOTALL)
    frames = {frame for stack in stacks for frame in stack}
    assert not {frame for frame in frames if not shown.fullmatch(frame)}
    assert any("hostile_programs.py" in frame or "<made" in frame for frame in frames)


def test_made_code_is_seen_under_names_that_were_made() -> None:
    stacks = sampled("coming_and_going")
    for frame in {frame for stack in stacks for frame in stack if "<made" in frame}:
        match = re.fullmatch(r"<made (\d+)>\((\d+)\): (made|<module>)", frame)
        assert match, frame
        # The source has as many empty lines as its number says.
        first = int(match[1]) % 50 + 2 if match[3] == "made" else 1
        assert int(match[2]) in {1, first, first + 1}, frame
