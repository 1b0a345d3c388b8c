"""Reads rules from ``[tool.stepscope.gate]`` in pyproject.toml, or from stepscope.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.arguments import shown
from stepscope.errors import StepscopeError
from stepscope.gate.rules import Rules, rules_of

STORE = Path(".stepscope") / "baselines"
_SUFFIX = ".toml"
_OWN_FILE = f"stepscope{_SUFFIX}"
_PROJECT = f"pyproject{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Config:
    rules: Rules
    root: Path  # what paths are relative to
    file: Path | None = None  # None: there is none
    baseline: Path | None = None
    branch: str = ""
    store: Path = STORE


def read_config(file: Path | None = None, start: Path | None = None) -> Config:
    """Return a file's rules; by default, of the nearest file up the tree that has some."""
    start = (start or Path.cwd()).absolute()
    if file is not None:
        table = _table(file, must_exist=True)
        return _config(table if table is not None else {}, file, file.absolute().parent)
    for folder in (start, *start.parents):
        for name in (_OWN_FILE, _PROJECT):
            rules = _table(folder / name)
            if rules is not None:
                return _config(rules, folder / name, folder)
        if (folder / ".git").exists():
            return Config(Rules(), folder, store=folder / STORE)
    return Config(Rules(), start, store=start / STORE)


def _table(file: Path, *, must_exist: bool = False) -> dict[str, Any] | None:
    """Return the table with the rules; None if the file or the table is missing."""
    try:
        with file.open("rb") as content:
            value: Any = tomllib.load(content)
    except OSError as error:
        if must_exist:
            raise StepscopeError(f"{file}: {error.strerror}") from None
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StepscopeError(f"{file}: {error}") from None
    path = ("tool", "stepscope", "gate") if file.name == _PROJECT else ("gate",)
    for word in path:
        value = value.get(word) if isinstance(value, dict) else None
        if value is None:
            return None
    if not isinstance(value, dict):
        raise StepscopeError(f"{file}: {'.'.join(path)}={shown(value)}: give a table")
    table: dict[str, Any] = value
    return table


def _config(table: dict[str, Any], file: Path, root: Path) -> Config:
    words: dict[str, str] = {}
    for key in ("baseline", "branch", "store"):
        value = table.get(key, "")
        if not isinstance(value, str):
            raise StepscopeError(f"{file}: {key}={shown(value)}: give a string")
        words[key] = value
    return Config(
        rules_of(table, str(file)),
        root,
        file,
        root / words["baseline"] if words["baseline"] else None,
        words["branch"],
        root / (words["store"] or STORE),
    )
