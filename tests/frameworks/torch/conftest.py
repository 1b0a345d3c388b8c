"""No test of PyTorch leaves a recording on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recording import nothing_left_on

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield
