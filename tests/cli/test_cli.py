"""The command line: verbs that read traces, and one clear line for whatever is wrong."""

from __future__ import annotations

import gzip
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import ENVIRONMENT, python
from made_trace import Call, trace_of_calls
from sample_traces import HOSTILE, ONE_RANK, recording
from stepscope.cli import commands_for, main
from stepscope.cli.base.json_output import VERSIONS
from stepscope.cli.base.options import memory_size
from stepscope.cli.base.progress import Progress
from stepscope.trace.model import Losses, Trace
from stepscope.trace.model import save_trace as save
from stepscope.units import count_text, duration_text, size_text


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "a.stepscope"
    save(recording(host="a host", pid=12, versions={"python": "3.x"}, end_ns=2_000_000), path)
    return path


@pytest.fixture
def truncated(tmp_path: Path, saved: Path) -> Path:
    main(["export", str(saved), "-o", "whole.json"])
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress((tmp_path / "whole.json").read_bytes()[:-60]))
    return path


# Reading.


def test_summary_shows_facts_and_the_table(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(saved)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{saved}: The run takes 1.00 ms after start-up (100% forward)")
    assert "  recorded  2 events on 1 thread in 2.00 ms" in lines
    rows = [line.split() for line in lines if line.strip().startswith(("outer", "inner"))]
    assert rows == [
        ["inner", "997", "µs", "99.7%", "997", "µs", "1"],
        ["outer", "3.00", "µs", "0.3%", "1.00", "ms", "1"],
    ]


def test_summary_also_has_torch_profilers_table(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(saved), "--torch-table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("outer", "inner"))]
    assert [(row[0], row[2]) for row in rows] == [("inner", "996.999us"), ("outer", "3.001us")]
    assert lines[-1] == "Self CPU time total: 1.000ms"


def test_summary_gives_the_answer_to_programs(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(saved), "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["steps"] is None
    assert parsed["unit_ns"] == 1_000_000
    assert [row["what"] for row in parsed["where"]] == ["forward"]
    assert parsed["findings"] == []


def test_a_trace_in_which_nothing_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(recording([]), tmp_path / "a.stepscope")
    assert main(["summary", "a.stepscope"]) == 0
    assert capsys.readouterr().out.endswith("\n\nThere is nothing to summarize.\n")
    assert main(["info", "a.stepscope"]) == 0


def test_summary_sorts_and_limits(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(saved), "--sort-by", "cpu_time_total", "--row-limit", "1"]) == 0
    out = capsys.readouterr().out
    assert "outer" in out
    assert "inner" not in out


def test_summary_tells_overloads_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [Call("aten::add", 0, 5, overload="Tensor"), Call("aten::add", 6, 9, overload="out")]
    save(trace_of_calls(calls), tmp_path / "a.stepscope")
    assert main(["summary", "a.stepscope", "--group-by-overload"]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "aten" in line]
    assert rows == [["aten::add", "Tensor"], ["aten::add", "out"]]


def test_losses_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lossy = recording(losses=Losses(1_234, "newest", 64 * 1024), end_ns=1)
    save(lossy, tmp_path / "a.stepscope")
    assert main(["summary", "a.stepscope"]) == 0
    line = "lost      the newest 1,234 events: the memory limit of 64.0 KiB was reached"
    assert line in capsys.readouterr().out


def test_the_first_step_holds_all_that_came_before_and_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = "Optimizer.step#SGD.step"
    calls = [Call(step, at, at + 10, category="user_annotation") for at in (990, 1_090, 1_390)]
    save(trace_of_calls(calls, end_ns=1_400_000), tmp_path / "a.stepscope")
    assert main(["summary", "a.stepscope"]) == 0
    output = capsys.readouterr().out
    by = "steps     3, each ended by the optimizer: mean 200 µs, median 200 µs, without the first"
    assert by in output
    assert "start-up  1.00 ms; not counted in any share below" in output


def test_info_tells_where_a_trace_comes_from(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(saved)]) == 0
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:])
    assert facts["producer"] == "stepscope"
    assert facts["host"] == "a host"
    assert facts["process"] == "12"
    assert facts["versions"] == "python 3.x"
    assert facts["slices"] == "2 operator"
    assert facts["lost"] == "nothing"
    assert facts["tracks"] == "1 with events, 0 without"
    assert facts["12/34"] == "2 events  python · main"


@pytest.mark.parametrize("verb", ["summary", "info"])
def test_traces_of_other_tools(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ONE_RANK:
        assert main([verb, str(path)]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith(f"{path}: ")
        assert shown.err == ""


def test_what_a_trace_says_cannot_move_the_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [*HOSTILE, "\x1b[2Jescape", "[bold]markup[/bold]"]
    texts = {f"key {name}": name for name in names}
    save(recording(names, user=texts, host="\x1b]0;title\x07"), tmp_path / "a.stepscope")
    for verb in ("summary", "info"):
        assert main([verb, "a.stepscope"]) == 0
        out = capsys.readouterr().out
        assert all(character.isprintable() for character in out.replace("\n", ""))
        assert "[bold]markup[/bold]" in out


def test_a_truncated_trace_is_shown_as_far_as_it_goes(
    truncated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["summary", str(truncated)]) == 0
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("stepscope: ")
    assert "ends early" in line
    assert "outer" in shown.out


# Writing.


@pytest.mark.parametrize("name", ["b.json", "b.json.gz", "b.stepscope"])
def test_export_keeps_every_event(
    saved: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(saved), "-o", name]) == 0
    assert f"stepscope: wrote {name}: 2 events, " in capsys.readouterr().err
    assert main(["export", name, "-o", "again.stepscope"]) == 0
    assert list(Trace.load(tmp_path / "again.stepscope").names()) == ["outer", "inner"]


@pytest.mark.parametrize("name", ["b.json", "b.stepscope"])
def test_export_replaces_only_by_force(saved: Path, tmp_path: Path, name: str) -> None:
    save(recording(["old"]), tmp_path / "old.stepscope")
    assert main(["export", "old.stepscope", "-o", name]) == 0
    assert main(["export", str(saved), "-o", name]) == 2
    assert main(["export", name, "-o", "kept.stepscope"]) == 0
    assert list(Trace.load(tmp_path / "kept.stepscope").names()) == ["old"]
    assert main(["export", str(saved), "-o", name, "--force"]) == 0
    assert main(["export", name, "-o", "new.stepscope"]) == 0
    assert list(Trace.load(tmp_path / "new.stepscope").names()) == ["outer", "inner"]


# Bad input.


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("bogus", "bogus"),
        ("", "VERB"),
        ("run", "nothing to run"),
        ("run -m", "module after -m"),
        ("run no-such.py", "the script 'no-such.py' does not exist"),
        ("run --sort-by nonsense script.py", "'nonsense' is not a column"),
        ("run --bogus script.py", "'--bogus'"),
        ("run --output", "--output"),
        ("run -o x.xyz script.py", "x.xyz"),
        ("run -o nowhere/x.stepscope script.py", "nowhere does not exist"),
        ("run -o script.stepscope --force script.py", "not a saved trace"),
        ("run --memory-limit 5Q script.py", "'5Q' is not a size"),
        ("run --memory-limit 1K script.py", "1024 bytes is too small"),
        ("run --keep some script.py", "'some'"),
        ("run --torch-collector none script.py", "'none'"),
        ("run --row-limit ten script.py", "'ten'"),
        ("summary", "TRACE"),
        ("summary no-such.json", "'no-such.json' does not exist"),
        ("summary no-such.stepscope", "does not exist"),
        ("summary empty.json", "is empty"),
        ("summary folder", "holds no traces"),
        ("summary script.py", "is not a trace"),
        ("summary list.json", "without trace events"),
        ("summary half.gz", "half.gz"),
        ("summary a.stepscope --sort-by nonsense", "'nonsense' is not a column"),
        ("summary a.stepscope --bogus", "'--bogus'"),
        ("summary a.stepscope b.stepscope", "b.stepscope"),
        ("info folder", "not a saved trace"),
        ("export a.stepscope", "--output"),
        ("export a.stepscope -o b.xyz", "b.xyz"),
        ("export a.stepscope -o nowhere/b.json", "nowhere does not exist"),
        ("export no-such.json -o b.json", "'no-such.json' does not exist"),
        ("export empty.json -o b.json", "is empty"),
    ],
)
def test_bad_input_is_one_clear_line(
    saved: Path, tmp_path: Path, words: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "script.stepscope").mkdir()
    (tmp_path / "script.py").write_text("raise AssertionError('this must not run')")
    (tmp_path / "empty.json").touch()
    (tmp_path / "list.json").write_text('{"other": 1}')
    (tmp_path / "half.gz").write_bytes(gzip.compress(b'{"traceEvents": [')[:12])
    before = sorted(tmp_path.rglob("*"))
    remaining = list(sys.argv), list(sys.path)
    try:
        assert main(words.split()) == 2
    finally:
        sys.argv[:], sys.path[:] = remaining
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert line.startswith("stepscope: ")
    assert complaint in line
    assert shown.out == ""
    assert sorted(tmp_path.rglob("*")) == before
    assert Trace.load(saved).info.host == "a host"


def test_a_reader_of_the_output_may_leave(saved: Path, tmp_path: Path) -> None:
    python_name = shlex.quote(sys.executable)
    done = subprocess.run(
        ["bash", "-c", f"{python_name} -m stepscope summary {saved} | true"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# The command itself.


@pytest.mark.parametrize("words", ["-m folder", "folder", "-m no_such_module"])
def test_what_python_cannot_run_is_its_own_clear_line(tmp_path: Path, words: str) -> None:
    (tmp_path / "folder").mkdir()
    bare = python(*words.split(), cwd=tmp_path)
    done = python("-m", "stepscope", "run", *words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (bare.returncode, "")
    theirs, ours = done.stderr.splitlines()
    assert f"{theirs}\n" == bare.stderr
    assert ours == f"stepscope: nothing was recorded: it ended with exit code {bare.returncode}"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as rest:
        main(["--help"])
    assert rest.value.code == 0
    out = capsys.readouterr().out
    for command in commands_for([]):
        assert re.search(rf"^    {command.name}\s", out, re.MULTILINE)
        assert (command.__doc__ or "").partition("\n")[0].rstrip(".") in out


@pytest.mark.parametrize("command", commands_for([]), ids=lambda command: command.name)
def test_every_verb_explains_itself(command: object, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as rest:
        main([command.name, "--help"])  # type: ignore[attr-defined]
    assert rest.value.code == 0
    assert (command.__doc__ or "-").partition("\n")[0] in capsys.readouterr().out


def test_help_is_quick(tmp_path: Path) -> None:
    code = """
import json, sys
from stepscope.cli import main
try:
    main(["run", "--help"])
except SystemExit:
    print(json.dumps(list(sys.modules)), file=sys.stderr)
"""
    modules = set(json.loads(python("-c", code, cwd=tmp_path).stderr))
    assert not modules & {"numpy", "polars", "rich", "torch"}


@pytest.mark.parametrize(
    ("text", "size"),
    [("65536", 65_536), ("64k", 65_536), ("1.5G", 3 << 29), ("2GiB", 2 << 30), ("none", None)],
)
def test_sizes(text: str, size: int | None) -> None:
    assert memory_size(text) == size


def test_numbers_have_three_digits_that_count() -> None:
    times = [0, 7, 999, 1_000, 12_345, 99_999_999, 999_999_999, 1_234_567_890, 5_000_000_000_000]
    assert [duration_text(ns) for ns in times] == [
        "0 ns",
        "7 ns",
        "999 ns",
        "1.00 µs",
        "12.3 µs",
        "100 ms",
        "1.00 s",
        "1.23 s",
        "5,000 s",
    ]
    assert size_text(160 * 2**20) == "160 MiB"
    assert count_text(1, "step") == "1 step"
    assert count_text(1_000, "step") == "1,000 steps"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_itself_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("stepscope.cli.base.progress._PATIENCE_S", 0.0)
    with Progress("reading") as progress:
        assert progress.timer is not None
        progress.timer.join()
        progress(1, 2)
    assert "stepscope: reading" in terminal.getvalue()


def test_progress_is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("stepscope.cli.base.progress._PATIENCE_S", 3600.0)
    with Progress("reading") as progress:
        progress(1, 2)
    assert terminal.getvalue() == ""


def test_progress_is_silent_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("stepscope.cli.base.progress._PATIENCE_S", 0.0)
    with Progress("reading") as progress:
        assert progress.timer is None
        progress(1, 2)
    assert sys.stderr.getvalue() == ""


def test_documents_name_their_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.stepscope"
    recording(rank=3).save(path)
    for verb, form in (("summary", "answer/2"), ("info", "info/1")):
        assert main([verb, str(path), "--json"]) == 0
        parsed = json.loads(capsys.readouterr().out)
        assert parsed["schema"] == f"stepscope.{form}"
    assert (parsed["rank"], parsed["rows"]["slices"], parsed["kinds"]) == (3, 2, {"operator": 2})
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    for form, version in VERSIONS.items():
        assert f"| `stepscope.{form}/{version}` |" in page
