"""Names that recordings contain, by which analyses recognise events."""

from __future__ import annotations

import re
from functools import lru_cache

COLLECTION = "Python garbage collection"  # a range around each run of the collector
RESIDENT_MEMORY = "resident memory"  # a counter of the process
REQUEST_CATEGORY = "request"  # category of ranges around a server's requests
OPTIMIZER_STEP = "Optimizer.step#"  # torch's ranges around optimizers, before their class
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
XLA_FRAME = re.compile(r"^\$\S+:\d+ ")  # ``$train.py:12 step``

BACKENDS = "(?:nccl|rccl|hccl|xccl|gloo|ucc|mpi|pccl)"  # libraries that implement collectives
BACKEND_COLLECTIVE = re.compile(rf"^{BACKENDS}:\w")  # torch's ranges: ``gloo:all_reduce``

_CALLS_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


def plain_call(name: str) -> str:
    """Return a call as programmers write it: CUPTI appends the version of its arguments."""
    return _CALLS_VERSION.sub("", name) if name.startswith("cu") and "(" not in name else name


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
