"""Many short blocks of the same work, each under one of some observers, in random turns.

On a busy machine a long run is interrupted for sure, a short block mostly not. So the work is timed
in blocks of about a millisecond, and the lower quartile of many is taken: interruptions only ever
lengthen. What an observer does once in many thousand operators weighs little in a quartile; the
rows that time a whole recording have that.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

Observers = Mapping[str, Callable[[], AbstractContextManager[Any]]]

BLOCKS_A_TURN = 8


def block_ns(
    observers: Observers,
    work: Callable[[], object],
    turns: int,
    clock_ns: Callable[[], int] = time.process_time_ns,
) -> dict[str, float]:
    """Return the lower quartile of a block's time under each observer, in ns.

    The clock is the time on a core of all threads of this process: programs beside it do not count.
    Work that waits, as for a device, wants ``time.perf_counter_ns``.
    """
    times: dict[str, list[int]] = {name: [] for name in observers}
    order = list(observers)
    work()
    gc.collect()
    gc.freeze()  # the libraries' objects need not be looked through again after each turn
    gc.disable()
    for _ in range(turns):
        random.shuffle(order)
        for name in order:
            with observers[name]():
                work()  # a recording's first block meets cold caches
                for _ in range(BLOCKS_A_TURN):
                    began = clock_ns()
                    work()
                    times[name].append(clock_ns() - began)
            gc.collect()
    gc.enable()
    gc.unfreeze()
    return {name: float(np.quantile(taken, 0.25)) for name, taken in times.items()}


def added_ns(
    observers: Observers, work: Callable[[], object], operators: int, turns: int
) -> dict[str, float]:
    """Return what each observer adds to one of the block's operators, over the one named "bare"."""
    times = block_ns(observers, work, turns)
    bare = times.pop("bare")
    return {name: (taken - bare) / operators for name, taken in times.items()}
