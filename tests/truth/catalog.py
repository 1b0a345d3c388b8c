"""The programs of the suite, by family."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"

# The programs of each file, by the argument that chooses one.
FAMILIES = {
    "plain_functions": "nested recursion mutual_recursion callbacks sort_by_key properties"
    " in_one_function",
    "plain_generators": "pipeline one_producer delegation sent_values",
    "plain_native": "sum sort json regex zlib half python",
    "plain_phases": "phases imports two_calls polling",
    "marked_steps": "even short one uneven waits threads",
    "asyncio_tasks": "in_turn together async_generator blocking executor callbacks",
    "thread_programs": "background_sleeper idle_helper queue lock socket pool one_by_one event",
    "process_programs": "pool_fork pool_spawn executor fork command both",
    "request_servers": "one_by_one threads greenlets aiohttp uvicorn",
    "numpy_programs": "pipeline products",
    "torch_batches": "alternating random growing tiny one three",
    "torch_updates": "accumulate4 accumulate10 closure lbfgs hooks gan gan5 two_optimizers",
    "torch_validation": "evaluate checkpoint both metrics then_evaluate",
    "torch_inference": "calls two_models generate threads",
    "torch_loops": "by_hand reinforcement slow_loader python_in_the_step",
    "paddle_loops": "alternating accumulate validation infer",
}

# What a program needs beside the standard library.
NEEDS = {
    "request_servers.greenlets": "gevent",
    "request_servers.aiohttp": "aiohttp",
    "request_servers.uvicorn": "uvicorn",
    "plain_phases.imports": "pandas",
}
FAMILY_NEEDS = {"torch": "torch", "paddle": "paddle", "numpy": "numpy"}


@dataclass(frozen=True)
class Program:
    """A program of the suite: a file, and the argument that chooses one of the file's family."""

    family: str
    argument: str

    @property
    def name(self) -> str:
        return f"{self.family}.{self.argument}"

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.family}.py"

    @property
    def package(self) -> str | None:
        """The package that it needs, if any."""
        return NEEDS.get(self.name) or FAMILY_NEEDS.get(self.family.partition("_")[0])


def is_at_hand(package: str | None) -> bool:
    return package is None or importlib.util.find_spec(package) is not None


PROGRAMS = [
    Program(family, argument)
    for family, arguments in FAMILIES.items()
    for argument in arguments.split()
]
