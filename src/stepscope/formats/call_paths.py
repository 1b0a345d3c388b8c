"""Slices as call paths: each distinct path of names once, as formats for samples have them.

Work of devices hangs below the call that launched it, so that one tree tells what the host did and
what that made the devices do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analysis.device.launches import launched_work
from stepscope.trace.model import NO_PARENT, Bool, Int64, Trace

NO_PATH = -1


@dataclass(frozen=True, slots=True)
class CallPaths:
    """A tree of names; callers come before their callees."""

    parent: Int64  # the path without its last name, NO_PATH at the top
    name: Int64  # string id
    of_slice: Int64  # the path of each slice
    track: Int64  # the track of each slice; of device work, that of the launching call
    is_device: Bool  # of each slice


def call_paths(trace: Trace) -> CallPaths:
    slices = trace.slices
    around = slices.parent.astype(np.int64)
    depth = slices.depth.astype(np.int64)
    track = slices.track.astype(np.int64)
    is_device = slices.on_device
    work, call = launched_work(trace)
    on_top = around[work] == NO_PARENT  # what nests on a stream stays below what it is in
    work, call = work[on_top], call[on_top]
    around[work], depth[work], track[work] = call, depth[call] + 1, track[call]
    of_slice = np.full(len(slices), NO_PATH, np.int64)
    parents, names = [], []
    count = 0
    left = np.arange(len(slices))
    ready = around == NO_PARENT
    while len(left):
        chosen = left[ready[left]]
        if not len(chosen):
            break
        above = np.where(around[chosen] == NO_PARENT, NO_PATH, of_slice[around[chosen]])
        key = (above + 1) * len(trace.strings) + slices.name[chosen]
        distinct, first, number = np.unique(key, return_index=True, return_inverse=True)
        of_slice[chosen] = count + number
        parents.append(above[first])
        names.append(slices.name[chosen[first]].astype(np.int64))
        count += len(distinct)
        left = left[~ready[left]]
        done = of_slice != NO_PATH
        ready[left] = done[around[left]]
    return CallPaths(
        np.concatenate([*parents, np.zeros(0, np.int64)]),
        np.concatenate([*names, np.zeros(0, np.int64)]),
        of_slice,
        track,
        is_device,
    )
