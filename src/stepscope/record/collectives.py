"""What is known of a collective, and how it is written into a recording: under Kineto's keys."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from stepscope.trace.keys import (
    COLLECTIVE,
    DESTINATION_RANK,
    DTYPE,
    GROUP_DESCRIPTION,
    GROUP_NAME,
    GROUP_RANKS,
    GROUP_SIZE,
    IN_ELEMENTS,
    IS_ASYNC,
    MODULE,
    NUMBER,
    OUT_ELEMENTS,
    RANK,
    SOURCE_RANK,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POINT_TO_POINT = frozenset({"send", "recv", "recv_anysource"})


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its name in the framework, and the global ranks in it."""

    name: str
    ranks: tuple[int, ...] = ()
    description: str = ""
    backend: str = ""

    def to_torch(self) -> dict[str, Any]:
        """Return the group as torch writes it into its files."""
        return {
            "pg_name": self.name,
            "pg_desc": self.description,
            "backend_config": self.backend,
            "pg_size": len(self.ranks),
            "ranks": list(self.ranks),
        }


@dataclass(slots=True)
class Collective:
    """One call of a collective on this rank; None stands for an unknown value."""

    name: str
    start_ns: int
    end_ns: int
    thread: str
    rows: list[int] = field(default_factory=list)  # in the recording; the first one is the call's
    group: str | None = None
    number: int | None = None  # within the group; the same on all ranks
    elements_in: int | None = None
    elements_out: int | None = None
    dtype: str | None = None
    source: int | None = None  # global ranks
    destination: int | None = None
    is_async: bool | None = None
    module: str | None = None

    @property
    def is_point_to_point(self) -> bool:
        """Return whether only two ranks take part."""
        return self.name in POINT_TO_POINT

    def take(self, other: Collective) -> None:
        """Fill in unknown values from another record of the same call."""
        for name in _MAY_BE_UNKNOWN:
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))

    def pairs(self, groups: Mapping[str, Group], rank: int | None) -> dict[str, Any]:
        """Return the arguments of its slices."""
        group = groups.get(self.group or "")
        pairs = {
            COLLECTIVE: self.name,
            GROUP_NAME: self.group,
            GROUP_DESCRIPTION: group and group.description,
            GROUP_RANKS: group and str(list(group.ranks)),
            GROUP_SIZE: group and len(group.ranks),
            RANK: rank,
            NUMBER: self.number,
            SOURCE_RANK: self.source,
            DESTINATION_RANK: self.destination,
            IN_ELEMENTS: self.elements_in,
            OUT_ELEMENTS: self.elements_out,
            DTYPE: self.dtype,
            IS_ASYNC: None if self.is_async is None else int(self.is_async),
            MODULE: self.module,
        }
        return {key: value for key, value in pairs.items() if value is not None}


# Every key that ``pairs`` writes; none of them is an input of the program.
COLLECTIVE_FIELDS = frozenset((
    *(COLLECTIVE, GROUP_NAME, GROUP_DESCRIPTION, GROUP_RANKS),
    *(GROUP_SIZE, RANK, NUMBER, SOURCE_RANK, DESTINATION_RANK, IN_ELEMENTS, OUT_ELEMENTS),
    *(DTYPE, IS_ASYNC, MODULE),
))  # fmt: skip

_MAY_BE_UNKNOWN = [field.name for field in fields(Collective) if field.default is None]


def take_notes(calls: Sequence[Collective], notes: Sequence[Collective]) -> None:
    """Fill in each call, in time order, from the note that encloses it on its thread."""
    by_thread: dict[str, list[Collective]] = {}
    for note in sorted(notes, key=lambda note: note.start_ns):
        by_thread.setdefault(note.thread, []).append(note)
    at = dict.fromkeys(by_thread, 0)
    for call in calls:
        mine = by_thread.get(call.thread)
        if mine is None:
            continue
        i = at[call.thread]
        while i < len(mine) and mine[i].end_ns < call.start_ns:
            i += 1
        at[call.thread] = i
        if i < len(mine) and mine[i].start_ns <= call.start_ns and call.end_ns <= mine[i].end_ns:
            call.take(mine[i])


def number_calls(calls: Sequence[Collective]) -> None:
    """Number the calls of each group that have no number, by those around them that have.

    All ranks call the collectives of a group in the same order: where nobody knows a number, its
    place in the recording is one.
    """
    by_group: dict[tuple[Any, ...], list[Collective]] = {}
    for call in calls:
        if call.group is None:
            continue
        pair = (call.source, call.destination) if call.is_point_to_point else ()
        by_group.setdefault((call.group, *pair), []).append(call)
    for mine in by_group.values():
        anchor = next((i for i, call in enumerate(mine) if call.number is not None), None)
        number = 0 if anchor is None else (mine[anchor].number or 0) - anchor - 1
        for call in mine:
            call.number = number + 1 if call.number is None else call.number
            number = call.number
