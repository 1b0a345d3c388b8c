"""Made GPU traces with one planted problem each, and healthy ones, in different dress.

A function makes one trace: how a program that people run looks to Kineto, with one thing wrong.
``graded_traces.toml`` says what is to be found in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_kineto import write

from planted import communication, healthy, jax, kernels, waiting

if TYPE_CHECKING:
    from pathlib import Path


def make_all(folder: Path) -> list[Path]:
    """Write all made traces, and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for group in (communication, waiting, kernels, healthy):
        for make in group.MADE:
            files.append(folder / f"{make.__name__}.pt.trace.json")
            write(files[-1], *make())
    for tell in (jax.jax_gaps, jax.jax_healthy):
        files.append(folder / f"{tell.__name__}.trace.json")
        tell(files[-1])
    return files
