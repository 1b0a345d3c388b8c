"""What a framework's source of collectives does: it notes each call that Python makes of one."""

from __future__ import annotations

import functools
import math
import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from stepscope._native import shielded
from stepscope.record.collective_account import CollectiveAccount
from stepscope.record.options import INSIDE
from stepscope.record.patching import PatchesWhenImported
from stepscope.record.source import Source
from stepscope.trace.element_types import element_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepscope.record.collectives import Collective
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.patching import Patches
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured


class CollectiveNotes(Source):
    """A source that keeps what the calls of collectives were, and writes it into their slices."""

    watching: ClassVar[list[CollectiveNotes]]  # the sources of one framework that record now

    def __init_subclass__(cls) -> None:
        """Give each framework a list of its own, which is empty in a forked child."""
        cls.watching = []
        os.register_at_fork(after_in_child=shielded(cls.watching.clear))

    def __init__(self, patches: Mapping[str, Patches], account: CollectiveAccount) -> None:
        self._patches = [PatchesWhenImported(name, wrapped) for name, wrapped in patches.items()]
        self.account = account

    @classmethod
    def made_for(cls, options: RecordOptions, limit: MemoryLimit | None) -> Source:
        """Make one, which inside a program notes as it goes."""
        return cls.with_account(CollectiveAccount(cls.name, is_inside=options[INSIDE], limit=limit))

    @classmethod
    @abstractmethod
    def with_account(cls, account: CollectiveAccount) -> CollectiveNotes:
        """Make one that keeps what it learns there."""

    @classmethod
    @abstractmethod
    def completed(cls, captured: Captured, account: CollectiveAccount) -> Captured:
        """Return a recording whose slices of collectives say what is known of them."""

    def refine(self, captured: Captured) -> Captured:
        """Add what was noted to the slices of collectives."""
        return self.completed(captured, self.account)

    @classmethod
    def refine_recovered(cls, captured: Captured, remains: LeftBehind) -> Captured:
        """Add what the process noted in its stream to the slices of collectives."""
        return cls.completed(captured, CollectiveAccount.left_by(remains, cls.name))

    @abstractmethod
    def look(self) -> None:
        """Remember the groups while they are there."""

    def start(self) -> None:
        """Note calls from now on, or from when the framework is imported."""
        self.account.begin()
        for patches in self._patches:
            patches.start()
        self.watching.append(self)

    def stop(self) -> None:
        if self in self.watching:
            self.watching.remove(self)
        for patches in self._patches:
            patches.stop()
        self.look()

    def note(self, call: Collective) -> None:
        self.account.add(call)
        if call.group not in self.account.groups:
            self.look()

    @classmethod
    def note_in_all(cls, call: Collective) -> None:
        for source in tuple(cls.watching):
            source.note(call)

    @classmethod
    def looking_first(cls, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that destroys groups, wrapped so that the groups are noted first."""

        def destroy(*args: Any, **kwargs: Any) -> Any:
            for source in tuple(cls.watching):
                source.look()
            return plain(*args, **kwargs)

        return functools.wraps(plain)(destroy)


def note_tensors(note: Collective, args: Sequence[Any], out: int | None, taken: int | None) -> None:
    """Note sizes and type of the tensors that a call was given.

    ``out`` and ``taken`` say which of the first two arguments are the output and the input.
    """
    tensors = [list(_tensors(value)) for value in args[:2]]
    note.elements_in, note.elements_out = _elements(tensors, taken), _elements(tensors, out)
    first = next((tensor for group in tensors for tensor in group), None)
    if first is not None:
        word = str(first.dtype).rpartition(".")[2]
        known_type = element_type(word)
        note.dtype = known_type.kineto if known_type else word


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        yield value
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _tensors(element)


def _elements(tensors: Sequence[Sequence[Any]], which: int | None) -> int | None:
    if which is None or which >= len(tensors):
        return None
    return sum(int(math.prod(tensor.shape)) for tensor in tensors[which])
