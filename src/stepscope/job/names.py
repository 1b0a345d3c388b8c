"""The files in a job's folder: which may be ranks, and the rank in a file's name."""

from __future__ import annotations

import re
from pathlib import Path

from stepscope.trace.placing import TRACE_SUFFIX
from stepscope.trace.regular_file import entries_of
from stepscope.trace.store import is_stored_trace

MAX_DEPTH = 3  # folders below the job's: rank_0/trace.json
MAX_FILES = 20_000
_SUFFIXES = (".json", ".json.gz", ".pb", ".pb.gz")
_RANK = re.compile(r"(?:rank|worker|trainer|node|gpu|proc(?:ess)?)[-_ .=]?(\d{1,7})(?!\d)", re.I)
_NUMBER = re.compile(r"(?:^|[-_.])(\d{1,5})(?=[-_.]|$)")
_NEVER = frozenset({"meta.json", "stream.json", "package.json", "__pycache__", "node_modules"})


def rank_in_name(path: str) -> int | None:
    """Return the rank in a file's name, else in its folder's, else None."""
    here = Path(path)
    for name in (here.name, here.parent.name):
        match = _RANK.search(name)
        if match:
            return int(match[1])
    stem = here.name
    for suffix in (".gz", ".json", ".pb", TRACE_SUFFIX, ".trace", ".pt"):
        stem = stem.removesuffix(suffix)
    numbers = _NUMBER.findall(stem)
    return int(numbers[0]) if len(numbers) == 1 else None


def rank_files(folder: Path) -> list[Path]:
    """Return the traces in a folder and its subfolders in natural order."""
    files: list[Path] = []
    waiting = [(folder, 0)]
    while waiting:
        here, depth = waiting.pop()
        for path in entries_of(here):
            if path.name.startswith(".") or path.name in _NEVER or len(files) >= MAX_FILES:
                continue
            if path.is_dir():
                if path.name.endswith(TRACE_SUFFIX):
                    files.append(path)
                elif depth < MAX_DEPTH and not is_stored_trace(path):
                    waiting.append((path, depth + 1))
            elif path.name.lower().endswith(_SUFFIXES) and path.is_file():
                files.append(path)
    return sorted(files, key=lambda path: _natural(str(path)))


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts rank-2 before rank-10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
    ]
