"""Converts programs in tests; every conversion is checked for what holds for all of them."""

from __future__ import annotations

import ast
from textwrap import dedent


def converted(program: str, to: str) -> str:
    """Return a program's conversion, which is a program, and its own conversion."""
    from stepscope.migrate.rewrite import migrate

    text = migrate(dedent(program), to).text
    ast.parse(text)
    assert migrate(text, to).text == text, "converting again changed it again"
    return text


def check(program: str, to: str, expected: str) -> None:
    """Assert what a program becomes."""
    assert converted(program, to) == dedent(expected)
