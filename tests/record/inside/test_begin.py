"""What a program's frameworks do is recorded from their import on."""

from __future__ import annotations

import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from inside import run_inside

EXTENSIONS = Path(__file__).parents[2] / "extensions"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

_STEP = """
import torch
def step():
    torch.ones(2, 3).matmul(torch.ones(3, 2))
step()
"""


def program(text: str) -> list[str]:
    return ["-c", textwrap.dedent(text)]


@needs_torch
def test_operators_are_recorded_from_torchs_import_on(tmp_path: Path) -> None:
    done = run_inside(tmp_path / "run", program(_STEP))
    assert (done.code, done.err) == (0, "")
    assert done.names().count("aten::mm") == 1
    assert "import torch" in done.names()
    sources = done.notes()["sources"]
    assert sources["sources"]["torch"].endswith("all threads, through the bridge")
    assert sources["parallelism"]["torch threads"] >= 1


@needs_torch
@pytest.mark.parametrize("times", [1, 2])
def test_a_forked_child_records_its_own_operators(tmp_path: Path, times: int) -> None:
    fork = """
import os
for _ in range({times}):
    if pid := os.fork():
        os.waitpid(pid, 0)
        os._exit(0)
    step()
"""
    done = run_inside(tmp_path / "run", program(_STEP + fork.format(times=times)))
    assert done.err == ""
    children = done.pids() - {done.pid}
    assert len(children) == times
    assert all(done.names(child).count("aten::mm") == 1 for child in children)
    assert done.names().count("aten::mm") == 1


@needs_torch
def test_a_child_of_multiprocessing_records_its_own_operators(tmp_path: Path) -> None:
    work = """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=step)
child.start()
child.join()
"""
    done = run_inside(tmp_path / "run", program(_STEP + work))
    (child,) = done.pids() - {done.pid}
    assert done.names(child).count("aten::mm") == 1
    assert "torch" in done.notes(child)["sources"]["sources"]


@needs_torch
def test_frameworks_that_threads_import_at_the_same_time_are_recorded(tmp_path: Path) -> None:
    text = """
import importlib, threading
names = ["torch", "http.server", "nvtx", "wsgiref.handlers", "socketserver"]
threads = [threading.Thread(target=importlib.import_module, args=(name,)) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
import nvtx, torch
with nvtx.annotate("marked"):
    torch.ones(2, 3).matmul(torch.ones(3, 2))
"""
    if find_spec("nvtx") is None:
        pytest.skip("nvtx is not installed")
    done = run_inside(tmp_path / "run", program(text), annotations=True)
    assert (done.code, done.err) == (0, "")
    assert {"aten::mm", "marked", "import socketserver"} <= set(done.names())
    assert "notices" not in done.notes()


@needs_torch
def test_no_bridge_is_built_in_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPSCOPE_BRIDGES_DIR", "")
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    done = run_inside(tmp_path / "run", program(_STEP))
    assert done.code == 0
    (line,) = done.notes()["notices"]["lines"]
    assert "was built beforehand" in line
    assert not (tmp_path / "none").exists()


def test_an_extensions_source_is_recorded_from_the_start(tmp_path: Path) -> None:
    plan = {"extensions": "prints:Prints", "at_once": "extensions"}
    folder = tmp_path / "run"
    done = run_inside(folder, program("print(1)"), plan, [EXTENSIONS], prints=True)
    assert done.names().count("print") == 1
    assert done.notes()["sources"]["sources"]["prints"] == "calls of print as print"
