"""What a process knows of its collectives: plain data, of which its stream keeps a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.record.collectives import Collective, Group
from stepscope.record.journal import Journal, entries, fits, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepscope.record.limits import MemoryLimit
    from stepscope.record.stream.left_behind import LeftBehind

_MOST_CALLS = 1_000_000
_MOST_CALLS_OF_A_RING = 1 << 17  # about 64 MiB
_CALLS = " calls"  # calls have a journal of their own, which starts over when it is full
_FIELDS: Mapping[str, type] = {
    **dict.fromkeys(("name", "thread", "group", "dtype", "module"), str),
    **dict.fromkeys(("start_ns", "end_ns", "number", "elements_in", "elements_out"), int),
    **dict.fromkeys(("source", "destination"), int),
    "is_async": bool,
}


class CollectiveAccount:
    """Process groups, calls of collectives, and the framework's own records of both."""

    def __init__(
        self, source: str, *, is_inside: bool = False, limit: MemoryLimit | None = None
    ) -> None:
        """Start empty; inside a recorded program, calls are only written to the stream."""
        is_ring = limit is not None and limit.is_ring
        self._is_inside = is_inside
        self._journal = Journal(source, is_on=is_inside)
        most = _MOST_CALLS_OF_A_RING if is_ring else _MOST_CALLS
        self._journal_of_calls = Journal(source + _CALLS, is_on=is_inside, most=most)
        self.rank: int | None = None
        self.groups: dict[str, Group] = {}
        self.calls: list[Collective] = []
        self.flights: Sequence[Collective] = ()
        self.buckets: dict[int, list[str]] = {}  # modules by the bytes of their DDP bucket

    @classmethod
    def left_by(cls, remains: LeftBehind, source: str) -> CollectiveAccount:
        """Return the account that a process left in its stream, without values of a wrong type."""
        account = cls(source)
        noted = entries(remains, source)
        for entry in noted:
            if is_whole(entry.get("rank")):
                account.rank = entry["rank"]
        account.groups = {group.name: group for group in _groups_in(noted)}
        account.flights = list(_calls_in(entry.get("flight") for entry in noted))
        account.calls = list(_calls_in(entries(remains, source + _CALLS)))
        account.buckets = {
            entry["bytes"]: entry["modules"]
            for entry in noted
            if is_whole(entry.get("bytes")) and _texts(entry.get("modules"))
        }
        return account

    def begin(self) -> None:
        """Forget the calls of an earlier recording."""
        self.calls, self.flights = [], ()

    def learn(self, groups: Mapping[str, Group], rank: int | None) -> None:
        """Remember the current groups and the rank; groups that are gone stay known."""
        if rank != self.rank and rank is not None:
            self.rank = rank
            self._journal.add({"rank": rank})
        for name, group in groups.items():
            if self.groups.get(name) != group:
                self.groups[name] = group
                self._journal.add({"group": group.to_torch()})

    def add(self, call: Collective) -> None:
        """Note one call."""
        if self._is_inside:
            self._journal_of_calls.add(_plain(call))
        elif len(self.calls) < _MOST_CALLS:
            self.calls.append(call)

    def keep_flights(self, flights: Sequence[Collective]) -> None:
        """Note the framework's own records of calls."""
        self.flights = flights
        for call in flights:
            self._journal.add({"flight": _plain(call)})

    def keep_buckets(self, buckets: Mapping[int, list[str]]) -> None:
        """Note which modules are reduced together."""
        for size, modules in buckets.items():
            if self.buckets.get(size) != modules:
                self.buckets[size] = modules
                self._journal.add({"bytes": size, "modules": modules})


def _plain(call: Collective) -> dict[str, Any]:
    values = {name: getattr(call, name) for name in _FIELDS}
    return {name: value for name, value in values.items() if value is not None}


def _calls_in(values: Iterable[object]) -> Iterator[Collective]:
    for value in values:
        if not isinstance(value, dict):
            continue
        fields = {
            name: value[name]
            for name, kind in _FIELDS.items()
            if name in value and fits([value[name]], kind)
        }
        if {"name", "start_ns", "end_ns", "thread"} <= fields.keys():
            yield Collective(**fields)


def _groups_in(noted: Iterable[Mapping[str, Any]]) -> Iterator[Group]:
    for entry in noted:
        group = entry.get("group")
        if not isinstance(group, dict):
            continue
        texts = [group.get(key) for key in ("pg_name", "pg_desc", "backend_config")]
        ranks = group.get("ranks")
        if fits(texts, str, str, str) and isinstance(ranks, list) and all(map(is_whole, ranks)):
            name, description, backend = texts
            yield Group(str(name), tuple(ranks), str(description), str(backend))


def _texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, str) for x in value)
