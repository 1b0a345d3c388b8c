"""What a report's page holds, read back as static/decode.js and static/lib/columns.js read it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.report.base.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepscope.trace.model import Trace


class PageData:
    """The columns, values and tables of a payload."""

    def __init__(self, packed: bytes) -> None:
        length = int.from_bytes(packed[:4], "little")
        header = json.loads(packed[4 : 4 + length])
        self.values: dict[str, Any] = header["values"]
        self._places: dict[str, Any] = header["columns"]
        self._bytes = packed[4 + length :]

    @staticmethod
    def of(section: Callable[[Trace, Payload], None], trace: Trace) -> PageData:
        """Return what one section adds."""
        payload = Payload()
        section(trace, payload)
        return PageData(payload.packed())

    @staticmethod
    def in_page(html: str) -> PageData:
        """Return what a page carries."""
        match = re.search(r'<script id="data"[^>]*>(.*?)</script>', html, re.DOTALL)
        assert match
        return PageData(gzip.decompress(base64.b64decode(match[1])))

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def column(self, name: str) -> NDArray[Any]:
        place = self._places[name]
        kind = np.dtype(place["type"])
        count = place["length"] * kind.itemsize
        planes = np.frombuffer(self._bytes, np.uint8, count, place["offset"])
        values = planes.reshape(kind.itemsize, -1).T.copy().view(kind).reshape(-1)
        return np.cumsum(values) if place["codec"] == "sums" else values

    def texts(self, name: str) -> list[str]:
        """Return what codes stand for."""
        data, ends = self.column(f"{name}.texts").tobytes(), self.column(f"{name}.ends")
        starts = [0, *ends.tolist()]
        return [data[a:b].decode() for a, b in zip(starts, ends.tolist(), strict=False)]

    def labels(self, name: str) -> list[str]:
        """Return a column of texts, one a row."""
        texts = self.texts(name)
        return [texts[code] for code in self.column(name)]

    def table(self, name: str) -> dict[str, list[Any]]:
        """Return the columns of a table by key."""
        keys = [place.removeprefix(f"{name}.") for place in self._places]
        keys = [key for key, place in zip(keys, self._places, strict=True) if key != place]
        rows = self.values[f"{name}.rows"]
        columns = {
            key: self.labels(f"{name}.{key}")
            if f"{name}.{key}.ends" in self
            else self.column(f"{name}.{key}").tolist()
            for key in keys
            if "." not in key
        }
        assert {len(column) for column in columns.values()} == {rows}
        return columns
