"""Writes ``docs/api.md``: every public object, its signature and what its docstring says."""

from __future__ import annotations

import enum
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
# What users import, in the order of the page.
MODULES = ("stepscope", "stepscope.torch", "stepscope.paddle", "stepscope.nvtx", "stepscope.itt")
_INTRODUCTION = """# API reference

Made from the docstrings by `tools/api_reference.py`; the guides say how these things are used
together. The command line explains itself: `stepscope --help`, `stepscope VERB --help`.
"""


class _Bare(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return it as it is."""
        return str(self)


def public_names(module: Any) -> list[str]:
    """Return what a module exports."""
    return sorted(module.__all__, key=str.lower)


def page() -> str:
    """Return the whole page; what is in two modules is described in the first."""
    parts, expected = [_INTRODUCTION], {}
    for name in MODULES:
        module = import_module(name)
        parts.append(f"## {name}\n\n{_described(module)}\n")
        for public in public_names(module):
            value = getattr(module, public)
            described = expected.get(id(value))
            if described is not None:
                parts.append(f"### `{name}.{public}`\n\nThe same as `{described}`.\n")
                continue
            expected[id(value)] = f"{name}.{public}"
            parts.append(_entry(f"{name}.{public}", value))
    return "\n".join(parts)


def _entry(path: str, value: Any) -> str:
    lines = [f"### `{path}`", ""]
    if inspect.ismodule(value):
        return "\n".join([*lines, f"The module, see below. {_described(value)}", ""])
    if callable(value) and not _is_enum(value):
        lines += [f"`{path.rpartition('.')[2]}{_signature(value)}`", ""]
    lines += [_described(value), ""]
    if _is_enum(value):
        lines += [f"Members: {', '.join(f'`{member}`' for member in value.__members__)}.", ""]
    elif inspect.isclass(value):
        lines += [*_members(value), ""]
    return "\n".join(lines)


def _members(kind: type) -> list[str]:
    rows = []
    for name, member in sorted(vars(kind).items()):
        if name.startswith("_"):
            continue
        target = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if inspect.isfunction(target) or inspect.isroutine(target):
            rows.append(f"- `{name}{_signature(target)}`: {_first_line(target)}")
        elif isinstance(target, property):
            rows.append(f"- `{name}`: {_first_line(target)}")
    return rows


def _signature(value: Any) -> str:
    try:
        expected = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        item.replace(annotation=_Bare(item.annotation))
        if isinstance(item.annotation, str)
        else item
        for item in expected.parameters.values()
    ]
    result = expected.return_annotation
    bare = _Bare(result) if isinstance(result, str) else result
    text = str(expected.replace(parameters=parameters, return_annotation=bare))
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\((self|cls)(, )?", "(", text, count=1)


def _described(value: Any) -> str:
    return (inspect.getdoc(value) or "").strip()


def _first_line(value: Any) -> str:
    return _described(value).partition("\n")[0]


def _is_enum(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, enum.Enum)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
