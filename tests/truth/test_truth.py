"""The quickest and steadiest programs of the truth suite; `make truth` runs all of them.

None of these figures depends on how busy the machine is: a function's time is CPU time on both
sides, a step's length is the wall clock's on both.
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

STEADY = frozenset[str]()


@pytest.mark.parametrize(
    "program", [one for one in PROGRAMS if one.name in STEADY], ids=attrgetter("name")
)
def test_an_answer_says_what_the_program_knows_of_itself(program: Program, tmp_path: Path) -> None:
    if not is_at_hand(program.package):
        pytest.skip(f"{program.package} is not installed")
    figures = compare(program, record(program, tmp_path))
    assert len(figures) > 3
    assert [figure for figure in figures if not figure.is_right] == []
