"""Names that recordings contain, by which analyses recognise events."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.trace.model import Track

COLLECTION = "Python garbage collection"  # a range around each run of the collector
RESIDENT_MEMORY = "resident memory"  # a counter of the process
REQUEST_CATEGORY = "request"  # category of ranges around a server's requests
OPTIMIZER_STEP = "Optimizer.step#"  # how torch names ranges around optimizers; the class follows
OPTIMIZER_ZERO_GRAD = "Optimizer.zero_grad#"
PADDLE_OPTIMIZER = "Optimization Step"
MODULE_PREFIX = "nn.Module: "  # of torch's calls of modules, before class and number
ENGINE = "autograd::engine::"  # torch's ranges around functions of the backward pass
ENGINE_CALL = f"{ENGINE}evaluate_function: "  # marks backward functions in foreign traces
COMPILE_CATEGORY = "compile"  # of compilations and graph breaks
COMPILATION = "torch.compile"  # followed by the region's number and its count of compilations
COMPILED_BACKWARD = ", backward"  # the name's suffix: a region's gradient is compiled separately
RECOMPILED = re.compile(rf"{re.escape(COMPILATION)} (?:\d+/)?\d+/[1-9]")
GRAPH_BREAK = "graph break: "  # of torch.compile
FRAME = re.compile(r"(.+)\((\d+)\): (.*)", re.DOTALL)  # ``model.py(12): Model.forward``

BACKENDS = "(?:nccl|rccl|hccl|xccl|gloo|ucc|mpi|pccl)"  # libraries that implement collectives
BACKEND_COLLECTIVE = re.compile(rf"^{BACKENDS}:\w")  # torch's ranges: ``gloo:all_reduce``

_CALLS_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


def plain_call(name: str) -> str:
    """Return a call as programmers write it: CUPTI appends the version of its arguments."""
    return _CALLS_VERSION.sub("", name) if name.startswith("cu") and "(" not in name else name


NO_NUMBER = -1
_DEVICE_PROCESS = re.compile(r"^/device:(?!CPU)[A-Za-z]\w*:(\d+)")  # ``/device:GPU:0``
_STREAM = re.compile(r"stream\D{0,3}(\d+)", re.IGNORECASE)


def device_number(track: Track) -> int:
    """Return the number of the device that a track's process is named after, or NO_NUMBER."""
    match = _DEVICE_PROCESS.match(track.process_name)
    return int(match[1]) if match else NO_NUMBER


def stream_number(track: Track) -> int:
    """Return the number of the stream that a device's track is named after, or NO_NUMBER."""
    match = _STREAM.search(track.thread_name) if device_number(track) != NO_NUMBER else None
    return int(match[1]) if match else NO_NUMBER


_NOT_LETTERS = re.compile(r"[^a-z]")
_VARIANTS = re.compile(r"^sparse|(coalesced|intotensor|tensor|base|single|anysource)+$")
_COLLECTIVE_WORDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "sendrecv": "send_recv",
}


@lru_cache(1 << 10)
def plain_collective(name: str) -> str:
    """Return one name for ``_allgather_base``, ``AllGather`` and ``allgather``."""
    bare = _VARIANTS.sub("", _NOT_LETTERS.sub("", name.rpartition(":")[2].lower()))
    return _COLLECTIVE_WORDS.get(bare, bare or "collective")
