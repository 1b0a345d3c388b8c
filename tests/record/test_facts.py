"""What a process notes of itself, and what is made of it elsewhere."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import sysconfig
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from recording import run_python
from stepscope.record.facts import raw_facts, start_ticks
from stepscope.trace import revision
from stepscope.trace.process_facts import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def through_json(raw: dict[str, object]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(raw)))


def test_a_process_describes_itself_by_plain_data() -> None:
    facts = facts_of(through_json(raw_facts()))
    assert facts["pid"] == os.getpid()
    assert facts["host"] == socket.gethostname()
    assert facts["versions"]["python"] == platform.python_version()
    assert {"json", "pytest", "sys"} & set(facts["libraries"]) == {"json", "pytest"}
    assert facts["parallelism"]["machine cores"] == os.cpu_count()
    assert str(raw_facts()["stdlib"]) == sysconfig.get_path("stdlib")


def test_versions_of_frameworks_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = ModuleType("torch")
    vars(torch)["__version__"] = "9.1"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert facts_of(through_json(raw_facts()))["versions"]["torch"] == "9.1"


def test_the_launchers_variables_are_noted_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("A_PASSWORD", "correct horse")
    raw = through_json(raw_facts())
    assert "correct horse" not in json.dumps(raw)
    monkeypatch.delenv("RANK")  # which says nothing of the process that noted it
    facts = facts_of(raw, {"backend": "gloo"})
    assert (facts["rank"], facts["world_size"]) == (1, 2)
    place = facts["user"]["distributedInfo"]
    assert place["backend"] == "gloo"
    assert place["run_id"].startswith(f"{socket.gethostname()}-{os.getppid()}-")


def test_the_program_is_in_the_folder_of_its_main_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision._Program, "folder", None)  # another test may have noted one
    (tmp_path / "train.py").write_text(
        "import json\nfrom stepscope.record.facts import raw_facts\nprint(json.dumps(raw_facts()))"
    )
    commit = "0123456789abcdef0123456789abcdef01234567"
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(commit)
    done = subprocess.run(
        [sys.executable, tmp_path / "train.py", "--epochs=3"],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    raw = json.loads(done.stdout)
    assert raw["argv"] == [str(tmp_path / "train.py"), "--epochs=3"]
    assert facts_of(raw)["revision"]["commit"] == commit


def test_noting_them_imports_nothing_and_runs_no_code_of_a_module() -> None:
    done = run_python(
        """
        import sys
        from importlib.util import LazyLoader, find_spec, module_from_spec
        spec = find_spec("colorsys")
        spec.loader = LazyLoader(spec.loader)
        sys.modules["colorsys"] = lazy = module_from_spec(spec)
        spec.loader.exec_module(lazy)
        class Strange:
            def __getattribute__(self, name):
                raise SystemExit(name)
        sys.modules["strange"] = Strange()
        sys.modules[5] = sys.modules["none"] = None
        sys.argv.append(object())
        from stepscope.record.facts import raw_facts
        before = set(sys.modules)
        raw = raw_facts()
        assert set(sys.modules) == before, set(sys.modules) - before
        assert "Lazy" in type(lazy).__name__
        assert raw["module_files"]["colorsys"] == spec.origin
        """
    )
    assert done.returncode == 0, done.stderr


def test_the_start_of_a_process_is_told_by_the_kernel() -> None:
    assert start_ticks(os.getpid()) >= start_ticks(os.getppid()) > 0
    assert start_ticks(1 << 30) == 0


@pytest.mark.parametrize(
    "spoil", [lambda _: None, lambda _: [1], lambda _: "\0", lambda _: {"a": 1}]
)
def test_what_is_not_as_it_should_be_is_left_out(spoil: Callable[[object], object]) -> None:
    facts_of({})
    raw = through_json(raw_facts())
    for name, value in raw.items():
        facts_of({**raw, name: spoil(value)})
    facts_of(raw, spoil(None))  # type: ignore[arg-type]
