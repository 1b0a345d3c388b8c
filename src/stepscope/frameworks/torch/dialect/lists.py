"""A list that makes its elements on access, and turns into a plain list when modified."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

from stepscope.arguments import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Item = TypeVar("_Item")


class MadeWhenTouched(list[_Item]):
    """A ``list`` that makes its elements on access.

    Reading elements makes only those; sorting, adding, comparing and other methods of lists make
    all of them and turn it into a plain list.
    """

    def __init__(self, elements: Iterable[_Item] | None = None) -> None:
        """Hold the given elements; without any, those that ``_make`` makes."""
        super().__init__(() if elements is None else elements)
        self._made = elements is not None

    @abstractmethod
    def _size(self) -> int:
        """Return how many elements can be made."""

    @abstractmethod
    def _make(self, index: int) -> _Item:
        """Make one element."""

    def _own(self) -> None:
        if not self._made:
            self._made = True
            list.extend(self, [self._make(i) for i in range(self._size())])

    def __len__(self) -> int:
        return list.__len__(self) if self._made else self._size()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[_Item]:
        if self._made:
            return list.__iter__(self)
        return (self._make(i) for i in range(self._size()))

    def __reversed__(self) -> Iterator[_Item]:
        if self._made:
            return list.__reversed__(self)
        return (self._make(i) for i in reversed(range(self._size())))

    @overload
    def __getitem__(self, index: SupportsIndex) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Item]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> _Item | list[_Item]:
        if isinstance(index, slice):
            if self._made:
                return list.__getitem__(self, index)
            return [self._make(i) for i in range(len(self))[index]]
        if not hasattr(type(index), "__index__"):
            whole("index", index, "or a slice")
        try:
            if self._made:
                return list.__getitem__(self, index)
            return self._make(range(len(self))[index])
        except IndexError:
            raise IndexError(f"event {index} of {len(self)}") from None

    def __radd__(self, other: list[Any]) -> list[Any]:
        return [*other, *self]

    __hash__ = None  # like every list


def _on_own_elements(name: str) -> Callable[..., Any]:
    plain = getattr(list, name)

    def method(self: MadeWhenTouched[Any], *args: Any, **kwargs: Any) -> Any:
        for argument in (self, *args):
            if isinstance(argument, MadeWhenTouched):
                argument._own()
        return plain(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = plain.__doc__
    return method


for _name in (
    *("__add__", "__iadd__", "__mul__", "__rmul__", "__imul__", "__contains__"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__setitem__", "__delitem__"),
    *("append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove"),
    *("reverse", "sort"),
):
    setattr(MadeWhenTouched, _name, _on_own_elements(_name))
