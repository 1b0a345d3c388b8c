"""Names, tracks and shapes of an Nsight Systems export, under Kineto's names."""

from __future__ import annotations

import numpy as np

from stepscope.formats.base.gathered import ABSENT, Gathered
from stepscope.formats.base.sqlite_file import SqliteFile
from stepscope.trace.model import Int64, UInt32
from stepscope.trace.names import plain_call

_ID_BITS = (1 << 24) - 1
_A_PROCESS = 1 << 40  # more than any correlation id: CUPTI's have 32 bits


class Names:
    """The table ``StringIds``, which the others refer to."""

    def __init__(self, file: SqliteFile, gathered: Gathered) -> None:
        self._texts = file.texts("StringIds", "id", "value")
        self._gathered = gathered
        self._processes: dict[int, int] = {}

    def correlations(self, global_ids: Int64, correlation: Int64) -> Int64:
        """Return numbers that are unique in the file: each process has its own count."""
        distinct, which = np.unique(global_ids >> 24, return_inverse=True)
        places = [
            self._processes.setdefault(pair, len(self._processes)) for pair in distinct.tolist()
        ]
        offset = np.array(places, np.int64)[which] * _A_PROCESS if places else global_ids
        is_known = (correlation > 0) & (correlation < _A_PROCESS)
        return np.where(is_known, correlation + offset, ABSENT)

    def text(self, number: int, default: str = "") -> str:
        return self._texts.get(number, default)

    def ids(self, numbers: Int64, default: str) -> UInt32:
        """Return string ids of texts by number; ``default`` stands for missing ones."""
        return self._gathered.name_ids(
            numbers, lambda number: plain_call(self.text(number, default))
        )


def process_of(global_id: int) -> str:
    return str(global_id >> 24 & _ID_BITS)


def thread_of(global_id: int) -> str:
    return str(global_id & _ID_BITS)
