"""Files of devices that are not at hand: simulated hosts and devices write what theirs would."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from made_kineto import COMMUNICATION, COMPUTE, MI300, Rank, write
from planted.jax import jax_gaps
from planted.parts import ALL_REDUCE, FLASH, GEMM, GEMM_AMD, MB, NORM, SEND, layer, optimizer, steps
from planted.waiting import slow_loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

TOKENS, WIDTH, INNER = 8192, 4096, 11008
PEAK_FLOPS_PER_US = 989.4e6  # an H100's, in bfloat16
BYTES = {"Float": 4, "Long": 8}


def module(rank: Rank, name: str) -> AbstractContextManager[None]:
    """Mark a module's call as torch.profiler does."""
    return rank.range(f"nn.Module: {name}", "python_function")


def product(rank: Rank, inner: int, outer: int, operator: str = "aten::mm") -> None:
    """Multiply at 70% of the peak."""
    us = 2 * TOKENS * inner * outer / PEAK_FLOPS_PER_US / 0.7
    sizes = [[TOKENS, inner], [inner, outer]]
    if operator == "aten::addmm":
        sizes = [[outer], *sizes]
    with rank.range("aten::linear", "cpu_op"):
        rank.python(1)
        rank.op(operator, (GEMM, us), **{"Input Dims": sizes, "Input type": ["c10::BFloat16"] * 2})


def language_model() -> list[Rank]:
    """Call a language model, and know the shapes and the modules."""
    rank = Rank()
    for _ in range(2):
        with module(rank, "Model_0"):
            for number in range(4):
                with module(rank, f"Layer_{number}"):
                    rank.op("aten::native_layer_norm", (NORM, 60))
                    with module(rank, f"Attention_{number}"):
                        product(rank, WIDTH, 3 * WIDTH, "aten::addmm")
                        heads = [[4, 32, 2048, 128]] * 3
                        with rank.range("aten::scaled_dot_product_attention", "cpu_op"):
                            rank.python(1)
                            operator = "aten::_scaled_dot_product_flash_attention"
                            rank.op(operator, (FLASH, 420), **{"Input Dims": heads})
                        product(rank, WIDTH, WIDTH)
                    with module(rank, f"Linear_{2 * number}"):
                        product(rank, WIDTH, INNER)
                    with module(rank, f"Linear_{2 * number + 1}"):
                        product(rank, INNER, WIDTH)
            rank.read()
    return [rank]


def rocm_model() -> list[Rank]:
    """Call a small model on an MI300, whose inputs come from memory that is not pinned."""
    rank = Rank(MI300)
    allocated = 900 * MB
    for number in range(3):
        with module(rank, "Encoder_0"):
            rank.memory(0x7F0000000000 + number, 8 * MB, allocated := allocated + 8 * MB, 1 << 30)
            rank.copy("HtoD (Host -> Device)", 60 * MB, 6.0, waits=True)
            for _ in range(2):
                layer(rank)
            with module(rank, "Head_0"):
                rank.op("aten::addmm", (GEMM_AMD, 90))
        rank.memory(0x7F0000000000 + number, -8 * MB, allocated := allocated - 8 * MB, 1 << 30)
    rank.wait()
    return [rank]


def nccl_rank() -> list[Rank]:
    """Train on one of two GPUs; collectives say how large they are, as NCCL's do."""
    rank = Rank(world=2)
    for _ in steps(rank, 3):
        rank.copy("HtoD (Pinned -> Device)", 30 * MB, 25.0, waits=False, stream=21)
        for number in range(3):
            layer(rank)
            rank.after(COMMUNICATION, COMPUTE)
            collective(
                rank, "allreduce", "AllReduce_Sum_f32", dtype="Float", elements=4 * MB + number
            )
            layer(rank, 0.5)
        collective(rank, "broadcast", "Broadcast", dtype="Long", elements=700)
        collective(rank, "_allgather_base", "AllGather", dtype="Float", elements=2 * MB, gathered=2)
        with communication(rank, "send 0->1"):
            rank.launch(SEND, 300, stream=COMMUNICATION)
        rank.after(COMPUTE, COMMUNICATION)
        optimizer(rank)
        rank.read()
    return [rank]


def two_gpus() -> list[Rank]:
    """Train on two GPUs of one file, with their communication exposed."""
    ranks = [
        Rank(number=i, pid=1000 + i, world=2, _ids=itertools.count(1 + MB * i)) for i in (0, 1)
    ]
    for rank in ranks:
        for _ in steps(rank, 4):
            for _ in range(3):
                layer(rank)
            rank.after(COMMUNICATION, COMPUTE)
            rank.op("nccl:all_reduce", (ALL_REDUCE, 6_000), stream=COMMUNICATION)
            rank.after(COMPUTE, COMMUNICATION)
            optimizer(rank)
            rank.read()
    return ranks


@contextlib.contextmanager
def communication(rank: Rank, name: str) -> Iterator[None]:
    with rank.range("record_param_comms", "cpu_op"):
        rank.python(1)
        with rank.range(f"nccl:{name}"):
            rank.python(1)
            yield


def collective(
    rank: Rank, name: str, kernel: str, *, dtype: str, elements: int, gathered: int = 1
) -> None:
    """Launch NCCL's kernel of a collective, with NCCL's arguments."""
    about: dict[str, Any] = {
        "Collective name": name,
        "dtype": dtype,
        "In msg nelems": elements,
        "Out msg nelems": elements * gathered,
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    with communication(rank, name):
        kernel = f"ncclDevKernel_{kernel}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        us = elements * BYTES[dtype] / 40_000
        rank.launch(kernel, us, stream=COMMUNICATION, **about)


def mtia(path: Path) -> None:
    """Write a file of an accelerator that calls all it does by its category of events."""
    events: list[dict[str, Any]] = []

    def event(cat: str, name: str, start: float, us: float, number: int) -> None:
        place = {"pid": 0, "tid": 3} if cat == "mtia_ccp_events" else {"pid": 500, "tid": 1}
        about = {"ts": start, "dur": us, "args": {"correlation": number}}
        events.append({"ph": "X", "cat": cat, "name": name, **place, **about})

    for pid, name in ((500, "python"), (0, "MTIA 0")):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
    now = 2_000.0
    work = (("dma_request", 90), ("event_wait", 40), ("matrix", 160), ("vector", 70))
    for number, (name, us) in enumerate((*work, ("event_record", 5)) * 8):
        event("cpu_op", "aten::linear", now, 12, number)
        event("mtia_runtime", "mtiaLaunch", now + 2, 6, number)
        event("mtia_ccp_events", name, now + 20, us, number)
        now += us + 30
    write_json(path, {"schemaVersion": 1, "traceEvents": events})


def xla(path: Path) -> None:
    """Write a file as JAX does, and say so as XLA does."""
    jax_gaps(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, {**document, "metadata": {"highres-ticks": True}})


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")


def made(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each sample's name, and a file that is there until the next."""
    for name, make in RANKS.items():
        write(folder / f"{name}.json", *make())
        yield name, folder / f"{name}.json"
    for name, write_to in FILES.items():
        write_to(folder / f"{name}.json")
        yield name, folder / f"{name}.json"


RANKS: dict[str, Callable[[], list[Rank]]] = {
    "made_language_model.pt.trace": language_model,
    "made_loader.pt.trace": slow_loader,
    "made_nccl.pt.trace": nccl_rank,
    "made_rocm.pt.trace": rocm_model,
    "made_two_gpus.pt.trace": two_gpus,
}
FILES: dict[str, Callable[[Path], None]] = {
    "made_mtia.pt.trace": mtia,
    "made_xla.trace": xla,
}
