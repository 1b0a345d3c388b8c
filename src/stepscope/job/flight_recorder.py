"""Dumps of PyTorch's flight recorder: which ranks a stuck collective waits for.

torch writes one file per rank (``TORCH_NCCL_DEBUG_INFO_TEMP_FILE``), a pickle of dicts, lists,
texts and numbers. Our own unpickler reads it, which creates nothing else, so that a stranger's file
cannot run code. JSON dumps are read, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from stepscope.errors import StepscopeError, TraceReadError
from stepscope.trace.plain_pickle import PlainPickleError, plain_unpickled
from stepscope.trace.regular_file import read_regular

_LIMIT_BYTES = 512 << 20
_RANK = re.compile(r"(\d+)$")


@dataclass(frozen=True, slots=True)
class Call:
    group: str
    number: int
    name: str
    state: str  # scheduled, started, completed
    place: str  # the innermost frame outside torch


@dataclass(frozen=True, slots=True)
class Dump:
    """The contents of one rank's flight recorder."""

    path: str
    rank: int
    calls: tuple[Call, ...]
    groups: dict[str, tuple[int, ...]]  # the ranks of each process group, if the dump has them


@dataclass(frozen=True, slots=True)
class Stuck:
    """A collective that some ranks wait at and others never reached."""

    name: str
    group: str
    number: int
    waiting: tuple[int, ...]
    never_arrived: tuple[int, ...]
    place: str  # where a waiting rank called it


def read_dump(path: str | PathLike[str], rank: int | None = None) -> Dump:
    """Read one rank's dump; the rank is taken from the file's name unless given."""
    place = Path(path)
    try:
        data = read_regular(place, _LIMIT_BYTES)
    except OSError as error:
        raise TraceReadError(place, f"cannot be read: {error.strerror}") from None
    dump = _loaded(place, data)
    entries = dump.get("entries") if isinstance(dump, dict) else dump
    if not isinstance(entries, list):
        raise TraceReadError(place, "is not a flight-recorder dump: it has no list of entries")
    if rank is None:
        number = dump.get("rank") if isinstance(dump, dict) else None
        match = _RANK.search(place.stem) or _RANK.search(place.name)
        if not isinstance(number, int) and match is None:
            raise StepscopeError(f"{place}: its name does not contain a rank; pass rank=N")
        rank = number if isinstance(number, int) else int(match[1]) if match else 0
    calls = [_call(entry) for entry in entries if isinstance(entry, dict)]
    return Dump(str(place), rank, tuple(entry for entry in calls if entry), _groups(dump))


def stuck_in_dumps(dumps: Iterable[Dump]) -> list[Stuck]:
    """Return the first collective of each group that not all of its ranks reached."""
    dumps = list(dumps)
    ranks_of: dict[str, set[int]] = {}
    reached: dict[str, dict[int, int]] = {}
    calls: dict[tuple[str, int], dict[int, Call]] = {}
    for dump in dumps:
        for group, members in dump.groups.items():
            ranks_of.setdefault(group, set()).update(members)
        for call in dump.calls:
            seen = reached.setdefault(call.group, {})
            seen[dump.rank] = max(seen.get(dump.rank, -1), call.number)
            calls.setdefault((call.group, call.number), {})[dump.rank] = call
    recorded = {dump.rank for dump in dumps}
    stuck = []
    for group, seen in reached.items():
        of_group = (ranks_of.get(group) or recorded) & recorded
        for number in sorted(n for g, n in calls if g == group):
            here = calls[group, number]
            waiting = [rank for rank, call in here.items() if call.state != "completed"]
            absent = [rank for rank in of_group - set(here) if seen.get(rank, -1) < number]
            if waiting and absent:
                call = here[min(waiting)]
                stuck.append(
                    Stuck(
                        call.name, group, number, tuple(sorted(waiting)), tuple(sorted(absent)),
                        call.place,
                    )
                )  # fmt: skip
                break
    return stuck


def _loaded(path: Path, data: bytes) -> Any:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise TraceReadError(path, "is not valid JSON") from None
    try:
        return plain_unpickled(data)
    except PlainPickleError as error:
        raise TraceReadError(path, f"is not a flight-recorder dump: {error}") from None


def _call(entry: dict[str, Any]) -> Call | None:
    group = entry.get("process_group", entry.get("pg_id", ""))
    if isinstance(group, list | tuple):
        group = group[0] if group else ""
    number = entry.get("collective_seq_id", entry.get("seq_id"))
    if entry.get("is_p2p") or not isinstance(number, int):
        return None
    name = _text(entry.get("profiling_name", "collective")).rpartition(":")[2]
    state = _text(entry.get("state", ""))
    return Call(_text(group), number, name, state, _frame(entry.get("frames")))


def _text(value: Any) -> str:
    """Return a text or a number as text; a list in a pickle may contain itself."""
    return str(value) if isinstance(value, str | int) else ""


def _frame(frames: Any) -> str:
    """Return the innermost frame outside torch."""
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict):
            file = _text(frame.get("filename", ""))
            if "/torch/" not in file and file.endswith(".py"):
                name, line = _text(frame.get("name", "")), _text(frame.get("line", 0))
                return f"{name} ({Path(file).name}:{line})"
    return ""


def _groups(configs: Any) -> dict[str, tuple[int, ...]]:
    config = configs.get("pg_config") if isinstance(configs, dict) else None
    groups = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if isinstance(ranks, str):
            ranks = [int(rank) for rank in re.findall(r"\d+", ranks)]
        if isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks):
            groups[_text(name)] = tuple(ranks)
    return groups
