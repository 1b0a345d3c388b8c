"""Numbers the tensors and memory blocks of a recording as torch.profiler does.

An address does not identify a block, as it may be released and allocated again. It does identify a
tensor, as the bridge keeps the tensors that it notes alive. Blocks that one tensor had one after
another get the number of that tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Numbers:
    """torch's ``id`` and ``allocation_id``; None where unknown."""

    tensor: int | None = None
    block: int | None = None


@dataclass(slots=True)
class TensorIds:
    """Numbers all tensors and blocks; they must be passed in the order of time."""

    _blocks: dict[tuple[int, str], int] = field(default_factory=dict)
    _next: int = 1
    _first_block: dict[int, int] = field(default_factory=dict)  # the first block of each tensor
    _pairs: set[tuple[int, int]] = field(default_factory=set)  # pairs of blocks that one tensor had
    _entries: list[Numbers] = field(default_factory=list)

    def block(self, address: int, device: str, *, is_freed: bool) -> Numbers:
        """Number an allocation or a release."""
        numbers, _ = self._numbered(address, device)
        if is_freed:
            del self._blocks[address, device]
        return numbers

    def tensor(self, impl: int, storage: int, device: str) -> Numbers:
        """Number a tensor that an operator was called with, or that Python holds.

        Tensors without a storage share one number, as in torch.profiler.
        """
        numbers, block = self._numbered(storage, device)
        first = self._first_block.setdefault(impl, block)
        self._pairs.add((min(first, block), max(first, block)))
        return numbers

    def finish(self) -> None:
        """Derive the tensors' numbers from the blocks that held them."""
        numbers: dict[int, int] = {}
        count = 0
        for first, other in sorted(self._pairs):
            number = numbers.setdefault(first, count)
            count = max(count, number + 1)
            numbers.setdefault(other, number)
        for entry in self._entries:
            entry.tensor = numbers.get(entry.block) if entry.block is not None else None

    def _numbered(self, address: int, device: str) -> tuple[Numbers, int]:
        block = self._blocks.setdefault((address, device), self._next)
        if block == self._next:
            self._next += 1
        self._entries.append(Numbers(block=block))
        return self._entries[-1], block
