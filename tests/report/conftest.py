"""What the tests of several pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_report import trace_of_a_step

if TYPE_CHECKING:
    from stepscope.trace.model import Trace


@pytest.fixture(scope="session")
def made() -> Trace:
    """A step with modules, shapes, stacks, memory and device work."""
    return trace_of_a_step()
