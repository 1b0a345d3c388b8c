"""Names the modules of a collective: buckets of DDP, units of FSDP."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope.record.patching import Patches
from stepscope.trace.element_types import element_bytes
from stepscope.trace.names import plain_collective

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepscope.record.collectives import Collective

T = TypeVar("T")

_MAX_NAMES = 3
_DDP = "torch.nn.parallel.distributed"
_FSDP2 = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
_FSDP1 = "torch.distributed.fsdp._runtime_utils"

# Without a WeakSet's callbacks: Python drops exceptions that are raised there, even Ctrl-C.
_ddp_modules: list[weakref.ref[Any]] = []
_all_buckets: list[weakref.ref[Buckets]] = []
_local = threading.local()


class Buckets:
    """The buckets of the program's DistributedDataParallel modules."""

    def __init__(self, keep: Callable[[Mapping[int, list[str]]], object]) -> None:
        """``keep`` receives the modules of each bucket, by the bucket's size in bytes."""
        self._keep = keep
        _remember(_all_buckets, self)

    def look(self) -> None:
        for module in _alive(_ddp_modules):
            self.learn(module)

    def learn(self, replicated: Any) -> None:
        with suppress(Exception):  # it has not run yet, or another release lacks this
            self._learn(replicated)

    def _learn(self, replicated: Any) -> None:
        logged = replicated._get_ddp_logging_data()
        sizes = [
            int(size) for size in str(logged["rebuilt_bucket_sizes"]).split(",") if size.strip()
        ]
        members = [
            [int(index) for index in indices.split()]
            for indices in str(logged["rebuilt_per_bucket_param_indices"]).split(",")
        ]
        names = [
            name.rpartition(".")[0]
            for name, parameter in replicated.module.named_parameters()
            if parameter.requires_grad
        ]
        modules_of: dict[int, list[str]] = {}
        for size, indices in zip(sizes, members, strict=True):
            modules_of.setdefault(size, []).append(_together([names[index] for index in indices]))
        self._keep(modules_of)


def name_modules(calls: Sequence[Collective], buckets: Mapping[int, Sequence[str]]) -> None:
    """Name the modules of each bucket's reduction by its size; equal sizes take turns."""
    turn = dict.fromkeys(buckets, 0)
    for call in calls:
        size = (call.elements_in or 0) * element_bytes(call.dtype or "")
        if call.module or size not in turn or plain_collective(call.name) != "all_reduce":
            continue
        names = buckets[size]
        call.module = names[turn[size] % len(names)] or None
        turn[size] += 1


def _remember(references: list[weakref.ref[T]], referent: T) -> None:
    references[:] = [other for other in references if other() is not None]
    references.append(weakref.ref(referent))


def _alive(references: list[weakref.ref[T]]) -> list[T]:
    return [alive for other in tuple(references) if (alive := other()) is not None]


def _together(modules: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(modules))
    more = len(distinct) - _MAX_NAMES
    return ", ".join(distinct[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def current_module() -> str | None:
    """Return the module whose parameters this thread gathers or reduces."""
    return getattr(_local, "module", None)


def _patch_ddp(patches: Patches) -> None:
    replicated: Any = sys.modules[_DDP].DistributedDataParallel
    patches.wrap(replicated, "__init__", _remembering)
    # Most DDP modules are gone when the recording ends, with the function that trained them.
    reducer: Any = getattr(sys.modules["torch._C._distributed_c10d"], "Reducer", None)
    if hasattr(reducer, "_rebuild_buckets"):
        patches.wrap(reducer, "_rebuild_buckets", _learning)


def _patch_fsdp2(patches: Patches) -> None:
    group: Any = getattr(sys.modules[_FSDP2], "FSDPParamGroup", None)
    for name in ("unshard", "post_backward"):
        if hasattr(group, name):
            patches.wrap(group, name, functools.partial(_within, _of_param_group))


def _patch_fsdp1(patches: Patches) -> None:
    runtime: Any = sys.modules[_FSDP1]
    for name in ("_unshard", "_reduce_grad"):
        if hasattr(runtime, name):
            patches.wrap(runtime, name, functools.partial(_within, _of_handle))


def _remembering(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        with suppress(Exception):
            _remember(_ddp_modules, self)

    return init


def _learning(plain: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Learn the buckets one forward pass after DDP rebuilt them, when it reports them."""
    made: set[int] = set()

    @functools.wraps(plain)
    def rebuild(reducer: Any) -> bool:
        is_done = plain(reducer)
        if is_done:
            made.add(id(reducer))
        elif made and id(reducer) in made:
            made.discard(id(reducer))
            for module in _alive(_ddp_modules):
                if getattr(module, "reducer", None) is reducer:
                    for buckets in _alive(_all_buckets):
                        buckets.learn(module)
        return is_done

    return rebuild


def _of_param_group(group: Any, *_: Any) -> str:
    return str(group._module_fqn or "")


def _of_handle(state: Any, handle: Any = None, *_: Any) -> str:
    """Return the common path of a unit's parameters in the model."""
    names = state._exec_order_data.param_to_fqn[handle.flat_param]
    paths = [name.replace("_fsdp_wrapped_module.", "").split(".")[:-1] for name in names]
    shared = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    return ".".join(shared) or _together([".".join(path) for path in paths])


def _within(name_of: Callable[..., str], plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = current_module()
        with suppress(Exception):
            _local.module = name_of(*args) or before
        try:
            return plain(*args, **kwargs)
        finally:
            _local.module = before

    return call


# By the module whose import each waits for.
PATCHES = {
    _DDP: Patches(_patch_ddp),
    _FSDP2: Patches(_patch_fsdp2),
    _FSDP1: Patches(_patch_fsdp1),
}
