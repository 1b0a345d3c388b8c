"""Bridges that came with the wheel: as good as compiled ones, tried first, refused if wrong."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from recording import run_python
from stepscope.frameworks.torch.bridge import prebuilt, probe
from stepscope.frameworks.torch.bridge.families import FAMILIES
from stepscope.frameworks.torch.bridge.load import load_library
from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS, TorchBuild
from stepscope.frameworks.torch.cuda_memory import CUDA_MEMORY

FOLDER = Path(prebuilt.__file__).parent / "prebuilt"
OWN = prebuilt.prebuilt_for(TorchBuild.of(torch), OPERATORS)
OTHER = FOLDER / "operators-2.12.so"  # of another family than the torch that tests run with

needs_bridges = pytest.mark.skipif(
    OWN is None or not OTHER.exists(),
    reason="this build carries no bridges: torch's headers were not at hand",
)
NOTHING_TO_COMPILE_WITH = {"PATH": "/nonexistent", "CXX": None}

# Records a training step with everything, and tells what does not depend on times.
RECORD = """
import json, torch
from stepscope import profile
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
optimizer = torch.optim.Adam(model.parameters())
data = torch.ones(2, 8)
def step():
    model(torch.cat([data, data])).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
step()
with profile(
    record_shapes=True, profile_memory=True, with_stack=True, with_modules=True, with_flops=True
) as prof:
    step()
trace = prof.trace
operators = [event for event in prof.events() if event.name.startswith(("aten::", "Addmm"))]
modules = prof.module_table().to_polars()
first = min(event.sequence_nr for event in operators if event.sequence_nr >= 0)
print(json.dumps({
    "source": trace.info.sources["torch"],
    "operators": [
        (event.name, event.input_shapes, event.concrete_inputs, event.flops, event.stack[:6],
         event.cpu_memory_usage, event.sequence_nr - first if event.sequence_nr >= 0 else None)
        for event in operators
    ],
    "memory": trace.memory.size.tolist(),
    "in use": trace.memory.allocated.tolist(),
    "owners": trace.owners.owner.tolist(),
    "modules": modules.select("name", "class_name", "operators", "memory_bytes", "flops").rows(),
}))
"""

pytestmark = pytest.mark.slow


def record(**environment: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return what a program of its own saw, and what it was told on stderr."""
    done = run_python(RECORD, **environment)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("stepscope:")]
    return json.loads(done.stdout), lines


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    """What a bridge sees that was compiled for this very torch, and is kept in the user's cache."""
    seen, _ = record(STEPSCOPE_BRIDGES_DIR="")
    assert "bridge" in seen["source"]
    return seen


# ---- which one


@pytest.mark.parametrize(
    ("version", "name", "proven"),
    [
        ("2.6.0", None, False),
        ("2.7.1+cu128", "operators-2.8.so", True),
        ("2.12.0", "operators-2.12.so", True),
        ("2.13.0+cpu", "operators-2.15.so", True),
        ("2.13.0a0+git1234567", "operators-2.15.so", False),
        ("2.13.0+rocm7.0", "operators-2.15.so", False),
        ("2.16.0", "operators-2.15.so", False),
        ("3.0.0", "operators-2.15.so", False),
        ("unknown", None, False),
    ],
)
def test_a_bridge_is_chosen_by_torchs_version(
    version: str, name: str | None, proven: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prebuilt, "_OWN_FOLDER", tmp_path)
    for family in FAMILIES:
        (tmp_path / f"operators-{family.name}.so").touch()
    bridge = prebuilt.prebuilt_for(TorchBuild(version, tmp_path, True), OPERATORS)
    assert (bridge and bridge.path.name) == name
    assert (bridge is not None and bridge.proven) == proven
    assert prebuilt.prebuilt_for(TorchBuild(version, tmp_path, False), OPERATORS) is None


def test_the_cuda_allocators_bridge_is_for_one_minor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prebuilt, "_OWN_FOLDER", tmp_path)
    for minor in ("2.13", "2.15"):
        (tmp_path / f"cuda_memory-{minor}.so").touch()
    bridges = [
        prebuilt.prebuilt_for(TorchBuild(f"{minor}.0", tmp_path, True), CUDA_MEMORY)
        for minor in ("2.13", "2.14", "2.16")
    ]
    assert [bridge and bridge.path.name for bridge in bridges] == [
        "cuda_memory-2.13.so",
        None,
        None,
    ]


# ---- as good as a compiled one


@needs_bridges
def test_without_compiler_and_cache_all_is_as_with_a_compiled_bridge(
    tmp_path: Path, compiled: dict[str, Any]
) -> None:
    seen, lines = record(STEPSCOPE_CACHE_DIR=str(tmp_path / "cache"), **NOTHING_TO_COMPILE_WITH)
    assert lines == []
    assert not (tmp_path / "cache").exists()
    assert seen == compiled


# ---- one that does not fit


@pytest.mark.slow
@needs_bridges
def test_a_bridge_for_another_torch_is_found_out() -> None:
    assert OWN is not None
    assert probe.misfit_in_child(OWN.path) == ""
    assert probe.misfit_in_child(OTHER) != ""


def test_profilers_that_start_on_several_threads_do_not_disturb_the_check() -> None:
    library = load_library(torch)
    lines: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: lines.extend(probe.misfit(library, torch) for _ in range(20))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines == [""] * 80


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A folder in which the bridge for this torch is one for another."""
    folder = tmp_path / "bridges"
    folder.mkdir()
    shutil.copy(OTHER, folder / "operators-2.15.so")
    return folder


@pytest.mark.slow
@needs_bridges
def test_a_wrong_bridge_is_refused_and_one_is_compiled(
    wrong: Path, compiled: dict[str, Any]
) -> None:
    seen, lines = record(STEPSCOPE_BRIDGES_DIR=str(wrong))
    assert lines == []
    assert seen == compiled


@needs_bridges
def test_without_any_bridge_torchs_collector_has_the_same_and_says_what_differs(
    wrong: Path, tmp_path: Path, compiled: dict[str, Any]
) -> None:
    cache = tmp_path / "cache"
    seen, lines = record(
        STEPSCOPE_BRIDGES_DIR=str(wrong),
        STEPSCOPE_CACHE_DIR=str(cache),
        XDG_CACHE_HOME=str(tmp_path),  # the user's own may know the verdict
        **NOTHING_TO_COMPILE_WITH,
    )
    (line,) = lines
    assert "no C++ compiler" in line
    assert "the wheel's bridge does not work either" in line
    assert "starting thread" in line
    assert "torch's own collector" in seen["source"]
    for what in ("memory", "in use", "owners", "modules"):
        assert seen[what] == compiled[what]
    for ours, theirs in zip(seen["operators"], compiled["operators"], strict=True):
        *before, stack, memory, sequence = ours
        *their_before, their_stack, their_memory, their_sequence = theirs
        assert (before, memory, sequence) == (their_before, their_memory, their_sequence)
        # It knows where each function begins, not the line that is running.
        assert files(stack)[:2] == files(their_stack)[:2]
    (verdict,) = cache.glob("*.misfit")
    assert verdict.read_text()


def files(stack: list[str]) -> list[str]:
    """Return the files of its functions; those written in C have none."""
    return [frame.partition("(")[0] for frame in stack if not frame.startswith(("<built", "<meth"))]


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    for family in FAMILIES:
        (tmp_path / f"operators-{family.name}.so").write_bytes(b"no library")
    seen, lines = record(STEPSCOPE_BRIDGES_DIR=str(tmp_path), STEPSCOPE_TORCH_COLLECTOR="auto")
    assert lines == []
    assert "through the bridge" in seen["source"]


# ---- not in the program's time


PROGRAM = """
import torch
torch.ones(2).neg()
"""


@pytest.mark.parametrize("folder", [None, ""], ids=["prebuilt", "compiled"])
def test_a_program_that_imports_torch_has_no_line_of_ours(
    folder: str | None, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_python(
        """
        import sys
        from stepscope.cli import main
        main(["run", "--no-report", "-o", sys.argv[1], sys.argv[2]])
        """,
        str(tmp_path / "trace.stepscope"),
        str(tmp_path / "program.py"),
        STEPSCOPE_BRIDGES_DIR=folder,
    )
    assert "aten::neg" in done.stderr, done.stderr
    assert re.search(r"start-up +[\d.]+ m?s: import ", done.stderr)
    assert "stepscope: " not in done.stdout


def test_what_is_compiled_is_compiled_before_the_program_starts(tmp_path: Path) -> None:
    """And it is not tried again in the program's time, where it failed."""
    log = tmp_path / "log"
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\necho compiler >> {log}\nexit 1\n")
    compiler.chmod(0o755)
    program = tmp_path / "program.py"
    program.write_text(f"print('program', file=open({str(log)!r}, 'a'))\n{PROGRAM}")
    done = run_python(
        """
        import sys
        from stepscope.cli import main
        sys.exit(main(["run", "--no-report", "-o", sys.argv[1], sys.argv[2]]))
        """,
        str(tmp_path / "trace.stepscope"),
        str(program),
        STEPSCOPE_BRIDGES_DIR="",
        STEPSCOPE_CACHE_DIR=str(tmp_path / "cache"),
        XDG_CACHE_HOME=str(tmp_path / "other"),
        CXX=str(compiler),
    )
    assert done.returncode == 0, done.stderr
    assert log.read_text().split() == ["compiler", "program"]
    assert "aten::neg" in done.stderr
    assert done.stderr.count("recording through torch's own collector") == 1
