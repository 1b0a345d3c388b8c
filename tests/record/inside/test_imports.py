"""What a program finds imported when it records itself: what plain Python has, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from inside import run_inside

if TYPE_CHECKING:
    from pathlib import Path

_AGENT = {
    "stepscope._native",
    "stepscope.record.inside.boot",
    "stepscope.record.facts",
    "stepscope.record.triggers",
    "stepscope.trace.cores",
    "stepscope.trace.variables",
}
_READERS = ("analysis", "cli", "formats", "job", "live", "query", "report", "text")

_PROGRAM = """
import sys
at_first = sorted(sys.modules)
{body}
import json
print(json.dumps([at_first, sorted(sys.modules), hasattr(sys.modules.get("numpy"), "ndarray")]))
"""

_TORCH = """
class WithoutNumPy:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "numpy":
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(WithoutNumPy, sys.meta_path)
import warnings
warnings.simplefilter("ignore")
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""

_PADDLE = """
import paddle
model = paddle.nn.Linear(4, 4)
optimizer = paddle.optimizer.SGD(0.1, model.parameters())
for _ in range(3):
    model(paddle.ones([2, 4])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def modules(
    folder: Path, body: str, **options: object
) -> tuple[list[set[str]], list[set[str]], bool]:
    """Return the modules before a program's first line and after its last: plain, and recorded."""
    program = ["-c", _PROGRAM.format(body=body)]
    plain = subprocess.run(
        [sys.executable, *program], capture_output=True, text=True, timeout=300, check=True
    )
    recorded = run_inside(folder / "run", program, **options)
    assert recorded.code == 0, recorded.err
    assert recorded.err == plain.stderr
    *bare, _ = json.loads(plain.stdout)
    *seen, has_numpy = json.loads(recorded.out)
    return [set(item) for item in bare], [set(item) for item in seen], has_numpy


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "stepscope"


def test_before_the_first_line_there_is_only_the_agent(tmp_path: Path) -> None:
    plain, recorded, _ = modules(tmp_path, "")
    assert recorded[0] - plain[0] == _AGENT
    assert plain[0] <= recorded[0]


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_a_framework_brings_nothing_but_what_records_it(tmp_path: Path, framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    body = {"torch": _TORCH, "paddle": _PADDLE}[framework]
    options = {"held_memory": True, "sampled_inputs": True, "device": True, "model_calls": True}
    plain, recorded, has_numpy = modules(tmp_path, body, **options)
    more = recorded[1] - plain[1]
    assert f"stepscope.frameworks.{framework}.{framework}_source" in more
    assert [name for name in more if not is_ours(name)] == []
    assert [name for name in more if name.split(".")[1:2] and name.split(".")[1] in _READERS] == []
    assert has_numpy == (framework == "paddle")  # which cannot do without
    assert plain[1] <= recorded[1]


@pytest.mark.parametrize("library", ["socketserver", "http.server", "wsgiref.handlers", "nvtx"])
def test_a_small_library_brings_no_more_of_the_standard_library(
    tmp_path: Path, library: str
) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    plain, recorded, _ = modules(tmp_path, f"import {library}", annotations=True)
    more = recorded[1] - plain[1]
    assert "stepscope.frameworks.begin" in more
    # No module of a program can have the name __future__.
    assert {name for name in more if not is_ours(name)} <= {"__future__"}
    assert plain[1] <= recorded[1]


def test_a_module_that_is_looked_for_first_is_recorded_and_keeps_its_loader(tmp_path: Path) -> None:
    body = """
import importlib.util
assert importlib.util.find_spec("socketserver").loader.get_filename().endswith("socketserver.py")
import socketserver
kinds = {type(socketserver.__loader__), type(socketserver.__spec__.loader)}
assert {kind.__name__ for kind in kinds} == {"SourceFileLoader"}, kinds
"""
    _, recorded, _ = modules(tmp_path, body)
    assert "stepscope.frameworks.python.servers" in recorded[1]
