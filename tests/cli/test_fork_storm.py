"""Many processes that fork from many threads, and fork again, under `stepscope run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import python, saved_trace, script, stepscope_run

if TYPE_CHECKING:
    from pathlib import Path

STORM = """
import os, threading

def child(number):
    if number % 10 == 0:
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(3)
        if os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) != 3:
            os._exit(99)
    sum(i * i for i in range(2000))
    os._exit(number % 5)

def storm():
    for number in range(40):
        pid = os.fork()
        if pid == 0:
            child(number)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ended[code == number % 5] += 1

ended = [0, 0]
threads = [threading.Thread(target=storm) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(ended)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--workers",), ("--stacks", "calls", "--memory")])
def test_a_storm_of_forks_ends_as_without_us(tmp_path: Path, options: tuple[str, ...]) -> None:
    script(tmp_path, STORM)
    bare = python("program.py", cwd=tmp_path)
    done = stepscope_run("--no-summary", *options, "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout) == (0, "[0, 320]\n")
    assert "Exception" not in done.stderr
    assert saved_trace(tmp_path).info.producer == "stepscope"
