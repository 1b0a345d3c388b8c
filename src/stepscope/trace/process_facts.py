"""A trace's description of the recorded process, built from the process's own notes."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.trace.launcher import described, wall_ns_of_ticks
from stepscope.trace.revision import revision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def facts_of(raw: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the fields of a TraceInfo that a process can tell at any time.

    ``raw`` comes from ``record/facts.py``, perhaps from a stranger's file: invalid values
    are left out. ``job`` is what frameworks say of the process's place.
    """
    environ = _texts_by_name(raw.get("environment"))
    host, prefix = _text(raw, "host"), _text(raw, "prefix") or "/"
    current = _text(raw, "cwd") or "/"
    return {
        **place_facts(raw, job),
        "wall_offset_ns": _whole(raw, "wall_offset_ns"),
        "host": host,
        "pid": _whole(raw, "pid"),
        "versions": _versions(raw),
        "libraries": _libraries(raw, current),
        "revision": revision(_text(raw, "main_file"), current, prefix, environ),
        "parallelism": {
            name: float(number)
            for name, number in _mapping(raw.get("parallelism")).items()
            if isinstance(number, int | float)
        },
    }


def place_facts(raw: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the process's place in its job, according to frameworks and the launcher."""
    started_ns = wall_ns_of_ticks(_whole(raw, "parent_start_ticks"))
    parent = f"{_text(raw, 'host')}-{_whole(raw, 'ppid')}-{started_ns}"
    place = described(_mapping(job), _texts_by_name(raw.get("environment")), parent)
    return {
        "rank": place.get("rank"),
        "world_size": place.get("world_size"),
        "user": {"distributedInfo": place} if place else {},
    }


def own_version() -> str:
    try:
        return metadata.version("stepscope")
    except metadata.PackageNotFoundError:
        return "unknown"


def _versions(raw: Mapping[str, Any]) -> dict[str, str]:
    python = next(iter(_text(raw, "python").split()), "unknown")
    return {
        "python": python,
        "stepscope": own_version(),
        **_texts_by_name(raw.get("module_versions")),
    }


def _libraries(raw: Mapping[str, Any], current: str) -> list[str]:
    """Return the imported top-level modules of installed packages and of Python."""
    path = raw.get("path")
    entries = [entry for entry in path if isinstance(entry, str)] if isinstance(path, list) else []
    folders = (_text(raw, "stdlib") + os.sep, *_installed_into(current, entries))
    return sorted(
        name
        for name, file in _texts_by_name(raw.get("module_files")).items()
        if "-packages" + os.sep in file or file.startswith(folders) or file == "frozen"
    )


def _installed_into(current: str, path: list[str]) -> Iterator[str]:
    """Yield the folders of sys.path from ``pip install --target``."""
    for folder in (Path(current, entry) for entry in path):
        try:
            is_one = any(inside.name.endswith(".dist-info") for inside in folder.iterdir())
        except (OSError, ValueError):  # an archive, or missing
            continue
        if is_one:
            yield str(folder) + os.sep


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def _whole(raw: Mapping[str, Any], name: str) -> int:
    value = raw.get(name)
    return value if isinstance(value, int) else 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts_by_name(value: object) -> dict[str, str]:
    return {name: text for name, text in _mapping(value).items() if isinstance(text, str)}
