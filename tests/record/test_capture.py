"""What the native core's numbers mean in the columns of a Trace."""

from __future__ import annotations

import numpy as np

from stepscope.record.capture import with_devices
from stepscope.trace.model import Memory
from stepscope.trace.strings import Strings

NO_INDEX = 0xFF


def test_the_cores_words_for_devices_are_spelled_as_torch_calls_them() -> None:
    words = [0 << 8 | NO_INDEX, 1 << 8 | 2, 15 << 8, 19 << 8 | NO_INDEX, 20 << 8, 7 << 8 | 1]
    columns = {
        name: np.zeros(len(words), column.dtype or np.uint32)
        for name, column in Memory.columns().items()
    }
    columns["device"] = np.array(words, np.uint32)
    strings, memory = with_devices(Strings.of([""]), Memory, columns)
    spelled = [strings[int(device)] for device in memory.device]
    assert spelled == ["cpu", "cuda:2", "hpu:0", "mtia", "privateuseone:0", "device7:1"]
