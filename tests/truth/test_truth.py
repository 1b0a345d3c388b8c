"""The quickest and steadiest programs of the truth suite; `make truth` runs all of them.

A function's time is CPU time on both sides, so that it does not depend on how busy the machine is;
but fewer samples are taken there. So a share may be off by 10 points here, and by 3 in the suite.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from .catalog import PROGRAMS, is_at_hand
from .figures import compare
from .recording import record

if TYPE_CHECKING:
    from pathlib import Path

    from .catalog import Program

STEADY = {
    "plain_functions.nested",
    "plain_functions.recursion",
    "plain_functions.mutual_recursion",
    "plain_functions.callbacks",
    "plain_functions.properties",
    "plain_functions.in_one_function",
    "plain_generators.pipeline",
    "plain_generators.delegation",
    "plain_phases.two_calls",
    "asyncio_tasks.async_generator",
    "asyncio_tasks.callbacks",
    "thread_programs.queue",
}


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.name in STEADY], ids=attrgetter("name")
)
def test_an_answer_says_what_the_program_knows_of_itself(program: Program, tmp_path: Path) -> None:
    if not is_at_hand(program.package):
        pytest.skip(f"{program.package} is not installed")
    figures = compare(program, record(program, tmp_path))
    assert any(figure.name.endswith("own") for figure in figures)
    assert [figure for figure in figures if figure.is_far_off] == []
