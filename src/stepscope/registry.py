"""Registries: Stepscope's extension points, one line per entry."""

from __future__ import annotations

TYPE_CHECKING = False  # nothing here imports more than a program has that we record
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Generic, TypeVar

    T = TypeVar("T")
else:
    Generic, T = (object,), 0  # of the class below only type checkers ask what it holds

_to_load: list[Callable[[], object]] = []
_to_load_early: list[Callable[[], object]] = []


def before_first_use(load: Callable[[], object]) -> None:
    """Have ``load`` called when a registry is first read, so that importing us stays cheap."""
    _to_load.append(load)


def before_recording(load: Callable[[], object]) -> None:
    """Have ``load`` called for any registry, including those needed to record.

    It should import nothing heavy: the profiled program has not run yet.
    """
    _to_load_early.append(load)


def _load(waiting: list[Callable[[], object]]) -> None:
    while waiting:
        waiting.pop(0)()


class Registry(Generic[T]):
    """Entries in the order in which they were registered."""

    def __init__(self, *, early: bool = False) -> None:
        """Start empty; a registry that is needed to record is ``early``."""
        self._early = early
        self._entries: list[T] = []

    def register(self, entry: T) -> T:
        """Add an entry and return it, so that this also works as a decorator."""
        self._entries.append(entry)
        return entry

    def unregister(self, entry: T) -> None:
        self._entries.remove(entry)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._loaded()))

    def __len__(self) -> int:
        return len(self._loaded())

    def _loaded(self) -> list[T]:
        _load(_to_load_early)
        if not self._early:
            _load(_to_load)
        return self._entries
