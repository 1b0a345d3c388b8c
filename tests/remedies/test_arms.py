"""Arms take turns at the ends of their steps, and nothing of them stays behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.remedies.arms import Arm, ArmFailedError, Program, RefusedError
from stepscope.remedies.rounds import RUN, survey

LONG_S = 300.0  # for a machine that is busy


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(path)
    monkeypatch.setattr(sys, "stdin", None)
    return path


@pytest.fixture
def program(folder: Path) -> Iterator[Program]:
    yield Program.of([sys.executable, "train.py"], folder, folder.parent / "scratch", network=False)


def deadline() -> float:
    return time.perf_counter() + LONG_S


def run_to_end(program: Program, text: str, edited: str = "") -> Arm:
    """Run a program to its end, perhaps edited; skip where the kernel keeps nothing apart."""
    path = program.folder / "train.py"
    path.write_text(text, encoding="utf-8")
    arm = Arm(program, "the program", RUN, {str(path): edited} if edited else {})
    try:
        arm.run_to_end(deadline())
    except RefusedError as error:
        arm.end()
        if "kept apart on this machine" in str(error):
            pytest.skip(str(error))
        raise
    except ArmFailedError:
        arm.end()
        raise
    return arm


WRITES = """\
import os, pathlib
pathlib.Path("result.txt").write_text("made")
pathlib.Path("data.txt").write_text("changed")
os.remove("old.txt")
print(sorted(os.listdir(".")), open("data.txt").read(), __file__)
"""


def test_what_a_program_writes_is_seen_by_itself_alone(program: Program) -> None:
    (program.folder / "data.txt").write_text("as it was", encoding="utf-8")
    (program.folder / "old.txt").write_text("", encoding="utf-8")
    arm = run_to_end(program, WRITES)
    output = arm.printed()
    arm.end()
    assert "['data.txt', 'result.txt', 'train.py'] changed" in output
    assert str(program.folder / "train.py") in output
    names = sorted(path.name for path in program.folder.iterdir())
    assert names == ["data.txt", "old.txt", "train.py"]
    assert (program.folder / "data.txt").read_text(encoding="utf-8") == "as it was"
    assert not any(path.name.startswith("arm-") for path in program.scratch.iterdir())


def test_an_edited_file_is_run_in_its_place(program: Program) -> None:
    arm = run_to_end(program, "print('plain')\n", "print('edited', __file__)\n")
    output = arm.printed()
    arm.end()
    assert output == f"edited {program.folder / 'train.py'}\n"
    assert (program.folder / "train.py").read_text(encoding="utf-8") == "print('plain')\n"


def test_processes_that_a_program_leaves_end_with_it(program: Program) -> None:
    word = f"stays-{os.getpid()}"
    text = f"""\
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", {word!r}],
                 start_new_session=True)
"""
    arm = run_to_end(program, text)
    arm.end()
    assert not any(word in command for command in commands())


def commands() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().decode(errors="replace")
        except OSError:
            continue


def test_a_connection_to_elsewhere_is_refused(program: Program) -> None:
    text = """\
import socket
socket.create_connection(("192.0.2.1", 80), timeout=5)
"""
    with pytest.raises(RefusedError, match=r"192\.0\.2\.1; --allow-network permits it"):
        run_to_end(program, text)


def test_a_program_that_asks_its_user_is_refused(program: Program) -> None:
    with pytest.raises(RefusedError, match="it asks its user"):
        run_to_end(program, "input('how many steps? ')\n")


def test_a_program_that_fails_is_named_with_its_last_line(program: Program) -> None:
    with pytest.raises(ArmFailedError, match="it ended with 1: ValueError: no data"):
        run_to_end(program, "raise ValueError('no data')\n")


def test_the_program_sees_the_environment_that_its_user_has(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    arm = run_to_end(program, "import os; print({'STEPSCOPE_TRY', 'PYTHONPATH'} & set(os.environ))")
    output = arm.printed()
    arm.end()
    assert output == "set()\n"


SURVEYED = """\
import random, time

TABLE = list(range(2000))
draws = []

def total(scale):
    return sum(value * scale for value in TABLE)

def drawn(scale):
    return total(scale) + random.random()

def noted(scale):
    draws.append(scale)
    return total(scale)

for step in range(200):
    total(2)
    drawn(3)
    noted(4)
"""


def test_the_survey_names_functions_whose_inputs_come_again(program: Program) -> None:
    run_to_end(program, SURVEYED).end()
    facts = survey(program, LONG_S, deadline())
    functions = {function["name"]: function for function in facts["functions"]}
    assert functions["total"]["obstacle"] == ""
    assert functions["total"]["repeats"] > 100
    assert functions["drawn"]["obstacle"] == "it draws random numbers"
    assert functions["noted"]["obstacle"] == "it changes its inputs"
    assert facts["is_whole"]


STEPS = """\
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    loss = model(torch.rand(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with open("step.txt", "w") as file:
        file.write(str(step))
"""


def test_arms_stop_at_the_end_of_the_steps_that_they_are_granted(program: Program) -> None:
    pytest.importorskip("torch")
    (program.folder / "train.py").write_text(STEPS, encoding="utf-8")
    run_to_end(program, STEPS).end()
    arms = [Arm(program, name, "optimizer:0", {}) for name in ("one", "other")]
    try:
        for arm in arms:
            assert arm.start(deadline()).facts["count"] == 1
        reports = [arm.window(6, deadline(), digest=True) for arm in arms]
        assert [report.facts["count"] for report in reports] == [7, 7]
        assert all(len(report.facts["times"]) == 6 for report in reports)
        first, second = (report.facts for report in reports)
        assert (first["results"], first["digest"]) == (second["results"], second["digest"])
        last = arms[0].window(100, deadline(), digest=True)
        assert (last.event, last.facts["count"]) == ("end", 20)
    finally:
        for arm in arms:
            arm.end()
    assert not (program.folder / "step.txt").exists()
