"""The mark ``stepscope`` and the fixture ``stepscope_trace``, in a pytest inside of this one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.pytester import LineMatcher

pytest.importorskip("torch")

from command_line import ENVIRONMENT
from recording import nothing_left_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PLUGIN = "stepscope.integrations.pytest_plugin"
# Where the package is installed, pytest finds the plugin by itself.
_IS_INSTALLED = any(entry_point.value == _PLUGIN for entry_point in entry_points(group="pytest11"))
_LOAD = () if _IS_INSTALLED else ("-p", _PLUGIN)


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    with nothing_left_on():
        yield


@dataclass
class Done:
    result: str

    def outcomes(self) -> dict[str, int]:
        """Return how many tests passed, failed, and could not be set up."""
        words = re.findall(r"(\d+) (passed|failed|error)", self.result.splitlines()[-1])
        return {word: int(count) for count, word in words}

    def has(self, *lines: str) -> None:
        """Check that these lines are there, in this order; ``*`` stands for anything."""
        LineMatcher(self.result.splitlines()).fnmatch_lines(lines)


@pytest.fixture
def ran(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run pytest in this process, where torch is imported already."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the next program is as new as this one
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(program: str, *words: str) -> Done:
        (tmp_path / "test_it.py").write_text(textwrap.dedent(program))
        capsys.readouterr()
        own = ("--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"))
        quiet = ("-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib")
        pytest.main([*_LOAD, *own, *quiet, *words, str(tmp_path)])
        for name in [item for item in sys.modules if item.endswith("test_it")]:
            del sys.modules[name]
        return Done(capsys.readouterr().out)

    return run


def test_limits_and_who_broke_them(ran: Callable[..., Done]) -> None:
    done = ran(
        """
        import pytest, torch, unittest

        @pytest.mark.stepscope(max_ops=11, max_sync=0, max_peak_memory="1MB", min_ops=2)
        def test_fine():
            x = torch.ones(4)
            for _ in range(10):
                x = x + 1

        @pytest.mark.stepscope(max_ops=10)
        def test_ops():
            x = torch.ones(4)
            for _ in range(10):
                x = x + 1

        @pytest.mark.stepscope(max_sync=0)
        class TestSync(unittest.TestCase):
            def test_read(self):
                self.assertEqual(torch.ones(4).sum().item(), 4)

        @pytest.mark.stepscope(max_peak_memory="1MB", max_flops=100)
        def test_memory():
            x = torch.zeros(512, 1024)
            x @ x.t()

        @pytest.mark.stepscope(max_ops=0)
        def test_its_own_failure_comes_first():
            torch.ones(4)
            assert False, "its own"
        """
    )
    assert done.outcomes() == {"passed": 1, "failed": 4}
    done.has(
        *[
            "*operators called: 11, and at most 10 is allowed",
            "  aten::add at test_ops (*test_it.py:14): 10",
            "*synchronisations: 1, and at most 0 is allowed",
            "  aten::_local_scalar_dense at *test_read (*test_it.py:19): 1",
            "*peak memory: * MiB, and at most 1.00 MiB is allowed",
            "  *aten::zeros at test_memory (*test_it.py:23): 2.00 MiB",
            "*floating-point operations: 537 MFLOP, and at most 100 FLOP is allowed",
            "*AssertionError: its own",
        ]
    )


@pytest.mark.slow
def test_a_regression_against_the_kept_baseline(ran: Callable[..., Done], tmp_path: Path) -> None:
    program = """
        import pytest, torch

        @pytest.mark.parametrize("size", [1, 2])
        @pytest.mark.stepscope(no_regression=True)
        def test_step(size):
            x = torch.ones(size)
            for _ in range(COUNT):
                x = x.exp()
    """
    fast, slow = program.replace("COUNT", "3"), program.replace("COUNT", "5")
    done = ran(fast)
    assert done.outcomes() == {"passed": 2}
    done.has("*2 baselines are new*")
    remaining = sorted((tmp_path / "__stepscope__" / "test_it").iterdir())
    assert len(remaining) == 2
    assert json.loads(remaining[0].read_text())["quantities"]["all_ops"]["total"] == 6
    done = ran(fast)
    assert done.outcomes() == {"passed": 2}
    assert "baselines are new" not in done.result
    done = ran(slow)
    assert done.outcomes() == {"failed": 2}
    done.has("*: 8, and the baseline has 6", "  mostly aten::exp at test_step (*:9): 5, 3 *")
    assert ran(slow, "--stepscope-update").outcomes() == {"passed": 2}
    remaining[0].write_text("[1]")
    done = ran(slow)
    assert done.outcomes() == {"passed": 1, "failed": 1}
    done.has("*not a baseline that can be read*")
    (tmp_path / "pytest.ini").write_text("[pytest]\nstepscope_baselines = perf\n")
    assert ran(slow).outcomes() == {"passed": 2}
    assert len(list((tmp_path / "perf" / "test_it").iterdir())) == 2


def test_the_fixture(ran: Callable[..., Done]) -> None:
    done = ran(
        """
        import pytest, torch

        @pytest.mark.stepscope(max_ops=2)
        def test_a_part(stepscope_trace):
            for _ in range(10):
                torch.ones(4)
            with stepscope_trace(record_shapes=True):
                torch.ones(4).exp()
            assert stepscope_trace.count("aten::exp") == 1
            assert stepscope_trace.quantity("ops") == 2
            assert len(stepscope_trace.slices) == len(stepscope_trace)

        def test_all_of_it(stepscope_trace):
            torch.ones(4).exp()
            assert "aten::exp" in set(stepscope_trace.names())
        """
    )
    assert done.outcomes() == {"passed": 2}


def test_wrong_arguments_are_named(ran: Callable[..., Done]) -> None:
    done = ran(
        """
        import pytest

        @pytest.mark.stepscope(max_opps=3)
        def test_name(): pass

        @pytest.mark.stepscope(max_peak_memory="lots")
        def test_value(): pass

        @pytest.mark.stepscope(3)
        def test_position(): pass

        @pytest.mark.stepscope(no_regression="speed")
        def test_quantity(): pass

        def test_none(): pass
        """,
        "--strict-markers",
    )
    assert done.outcomes() == {"passed": 1, "error": 4}
    done.has(
        "*no argument 'max_opps'; did you mean 'max_ops'? *",
        "*max_peak_memory='lots': give a size*",
        "*stepscope(3): name its arguments*",
        "*no_regression: there is no rule 'speed'*",
    )
    assert "During handling" not in done.result


@pytest.mark.slow
def test_workers_tell_who_they_work_for_and_others_cost_nothing(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    program = """
        import pytest, stepscope, sys

        def test_first():
            assert not [name for name in sys.modules if name.startswith("stepscope.gate")]
            assert "stepscope.frameworks" not in sys.modules

        @pytest.mark.parametrize("number", range(2))
        @pytest.mark.stepscope(max_ops=0, no_regression=["ops"])
        def test_nothing(number):
            with stepscope.record_function("range"):
                pass
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(program))
    (tmp_path / "pytest.ini").touch()
    words = (*_LOAD, "-p", "no:cacheprovider", "-p", "xdist", "-n", "1", "-c", "pytest.ini")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "" if _IS_INSTALLED else "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert Done(done.stdout).outcomes() == {"passed": 3}, done.stdout + done.stderr
    Done(done.stdout).has("*2 baselines are new*")
