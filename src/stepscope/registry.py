"""Registries: what a part of Stepscope can be extended with, one line an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_to_load: list[Callable[[], object]] = []


def before_first_use(load: Callable[[], object]) -> None:
    """Have ``load`` called when somebody first looks into a registry: importing us stays cheap."""
    _to_load.append(load)


def _load() -> None:
    while _to_load:
        _to_load.pop(0)()


class Registry(Generic[T]):
    """Entries in the order in which they were registered."""

    def __init__(self) -> None:
        """Start without entries."""
        self._entries: list[T] = []

    def register(self, entry: T) -> T:
        """Add an entry and return it, so that this serves as a decorator, too."""
        self._entries.append(entry)
        return entry

    def unregister(self, entry: T) -> None:
        """Take an entry out again."""
        self._entries.remove(entry)

    def __iter__(self) -> Iterator[T]:
        """Yield the entries."""
        _load()
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        """Return the number of entries."""
        _load()
        return len(self._entries)
