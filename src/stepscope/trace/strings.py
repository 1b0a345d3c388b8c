"""Interned strings, decoded on first use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


_SMALL = 1 << 14
"""Tables up to this size are cached decoded; a larger one would take much memory."""

_HALF_PAIR = re.compile("[\ud800-\udfff]")


def valid_value(value: Any) -> Any:
    """Replace lone surrogates in a JSON value, which nothing can print."""
    if isinstance(value, str):
        return value if value.isascii() else _HALF_PAIR.sub("\ufffd", value)
    if isinstance(value, list):
        return [valid_value(item) for item in value]
    if isinstance(value, dict):
        return {valid_value(key): valid_value(item) for key, item in value.items()}
    return value


class Strings(Sequence[str]):
    """A string table: one UTF-8 blob and the offsets into it. Id 0 is always ``""``."""

    __slots__ = ("_blob", "_decoded", "_offsets")

    def __init__(self, blob: bytes, offsets: NDArray[np.int64]) -> None:
        """String i is ``blob[offsets[i]:offsets[i + 1]]``."""
        self._blob = blob
        self._offsets = offsets
        self._decoded: list[str] | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """Build a table from texts; the first must be the empty string."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        if not encoded or encoded[0]:
            raise ValueError("string id 0 must be the empty string")
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(b"".join(encoded), offsets)

    @property
    def blob(self) -> bytes:
        """Return the bytes of all strings, concatenated."""
        return self._blob

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Return the start of each string, and the end of the last."""
        return self._offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """Decode one string, or a slice of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if self._decoded is not None:
            return self._decoded[index]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"string {index} of {len(self)}")
        raw = self._blob[self._offsets[index] : self._offsets[index + 1]]
        return raw.decode("utf-8", "replace")

    def decode_all(self) -> list[str]:
        """Return every string; the result is cached."""
        if self._decoded is None:
            bounds = pairwise(self._offsets.tolist())
            blob = self._blob
            if blob.isascii():  # ASCII is decoded at once, since a byte is a character
                text = blob.decode("ascii")
                self._decoded = [text[start:end] for start, end in bounds]
            else:
                self._decoded = [
                    blob[start:end].decode("utf-8", "replace") for start, end in bounds
                ]
        return self._decoded

    def texts_of(self, ids: Sequence[int]) -> list[str]:
        """Return the strings of some ids; a small table is decoded and cached as a whole."""
        if self._decoded is None and len(self) > _SMALL:
            return [self[i] for i in ids]
        decoded = self.decode_all()
        return [decoded[i] for i in ids]

    def ids_with(self, part: str) -> NDArray[np.int64]:
        """Return the ids of strings that contain a text, ascending, without decoding."""
        wanted, blob = part.encode(), self._blob
        starts: list[int] = []
        at = blob.find(wanted)
        while at >= 0:
            starts.append(at)
            at = blob.find(wanted, at + 1)
        ids = np.array(starts, np.int64)
        holder = np.searchsorted(self._offsets, ids, side="right") - 1
        # A match must not cross the boundary between two strings.
        within = ids + len(wanted) <= self._offsets[holder + 1]
        return np.unique(holder[within])

    def ids_of(self, texts: Iterable[str]) -> dict[str, int]:
        """Return the ids of those texts that are in the table."""
        wanted = set(texts)
        return {text: i for i, text in enumerate(self.decode_all()) if text in wanted}
