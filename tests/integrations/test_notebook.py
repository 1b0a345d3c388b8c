"""``%load_ext stepscope`` and its magics, in a real IPython shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

interactive = pytest.importorskip(
    "IPython.core.interactiveshell", reason="IPython is not installed: pip install ipython"
)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    made = interactive.InteractiveShell.instance()
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "stepscope")
    yield made
    interactive.InteractiveShell.clear_instance()


SLOW = "total = 0\nfor i in range(300_000):\n    total += i * i\ntotal"


def test_a_cell_is_recorded_and_shown(shell: Any, tmp_path: Path, capsys: Any) -> None:
    done = shell.run_cell(f"%%stepscope --name trace -o cell.stepscope -o cell.html\n{SLOW}")
    assert done.success, done.error_in_exec
    shown = done.result
    assert "verdict" in shown._repr_html_()
    assert "cell.html" in shown._repr_html_()
    assert "where the run goes" in repr(shown)
    assert shell.user_ns["total"] == sum(i * i for i in range(300_000))
    assert shell.user_ns["trace"] is shown.trace
    assert len(shown.trace.samples), "the sampler is on"
    assert (tmp_path / "cell.stepscope").is_dir()
    assert (tmp_path / "cell.html").is_file()
    assert str(shell.user_ns["total"]) in capsys.readouterr().out


def test_a_statement_too(shell: Any) -> None:
    done = shell.run_cell("%stepscope --memory -- x = sorted(range(1000), key=lambda i: -i)")
    assert done.success, done.error_in_exec
    assert shell.user_ns["x"][0] == 999


def test_an_error_of_the_cell_leaves_the_trace(shell: Any, capsys: Any) -> None:
    done = shell.run_cell(f"%%stepscope --name trace\n{SLOW}\n1 / 0")
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert len(shell.user_ns["trace"].samples)
    assert done.result is not None


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%stepscope --shape\nx = 1", "--shape"),
        ("%stepscope", "nothing to record"),
    ],
)
def test_a_wrong_use_is_told_and_ends_nothing(
    shell: Any, capsys: Any, cell: str, message: str
) -> None:
    assert not shell.run_cell(cell).success
    output = capsys.readouterr()
    assert message in output.out + output.err
    assert "Traceback" not in output.out + output.err
