"""The registry of sources: what they declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepscope.record.options import SHARED_OPTIONS
from stepscope.record.source import SOURCES, SourceGroup, declared_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.record.options import Option

GROUPS = [item for item in SOURCES if isinstance(item, SourceGroup)]


def names(options: Iterable[Option[Any]]) -> set[str]:
    return {option.name for option in options}


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_what_its_sources_declare(group: SourceGroup) -> None:
    listed = names([*SHARED_OPTIONS, *(option for item in GROUPS for option in item.options)])
    assert names(group.options) <= names(declared_options(group())) <= listed


def test_no_two_options_have_one_name() -> None:
    options = [*SHARED_OPTIONS, *(option for group in GROUPS for option in group.options)]
    assert len(names(options)) == len(options)
