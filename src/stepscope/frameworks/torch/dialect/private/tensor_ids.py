"""Numbers for the tensors and blocks of memory of a recording, as torch.profiler gives them.

A block that is given back and handed out again is another one: its address is not enough to know it
by. Nor is a tensor's: an operator may give a tensor another block, but a tensor that is gone leaves
its address to the next. torch keeps all tensors' objects alive to tell these apart; here, a tensor
has another block only where an operator that gives it one was called with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_GIVES_BLOCKS = ("aten::set_", "aten::resize_", "aten::resize_as_", "aten::set_data")


@dataclass(slots=True)
class Numbers:
    """What torch calls ``id`` and ``allocation_id``; None where they are not known."""

    tensor: int | None = None
    block: int | None = None


@dataclass(slots=True)
class TensorIds:
    """Numbers all tensors and blocks, which are told in the order of time."""

    _blocks: dict[tuple[int, str], int] = field(default_factory=dict)
    _next: int = 1
    _of_tensor: dict[tuple[int, str], int] = field(default_factory=dict)
    _may_change: set[tuple[int, str]] = field(default_factory=set)
    _same: dict[int, int] = field(default_factory=dict)  # blocks of one tensor: to an earlier one
    _with_tensors: set[int] = field(default_factory=set)
    _told: list[Numbers] = field(default_factory=list)

    def block(self, address: int, device: str, *, is_freed: bool) -> Numbers:
        """Take an allocation or a release."""
        numbers = self._numbered(address, device)
        if is_freed:
            del self._blocks[address, device]
        return numbers

    def tensor(self, impl: int, storage: int, device: str, operator: str = "") -> Numbers:
        """Take a tensor that an operator was called with, or that Python holds."""
        if not storage:
            return Numbers()
        numbers = self._numbered(storage, device)
        block = numbers.block
        assert block is not None
        self._with_tensors.add(block)
        key = impl, device
        before = self._of_tensor.get(key)
        if before is not None and before != block and key in self._may_change:
            self._same[self._root(block)] = self._root(before)
        self._of_tensor[key] = block
        if operator in _GIVES_BLOCKS:
            self._may_change.add(key)
        elif before != block:
            self._may_change.discard(key)
        return numbers

    def finish(self) -> None:
        """Fill in the tensors' numbers: those of the blocks that hold some."""
        numbers: dict[int, int] = {}
        for each in self._told:
            if each.block in self._with_tensors:
                each.tensor = numbers.setdefault(self._root(each.block), len(numbers))

    def _numbered(self, address: int, device: str) -> Numbers:
        block = self._blocks.setdefault((address, device), self._next)
        if block == self._next:
            self._next += 1
        self._told.append(Numbers(block=block))
        return self._told[-1]

    def _root(self, block: int) -> int:
        while block in self._same:
            block = self._same[block]
        return block
