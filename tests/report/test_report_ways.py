"""How a report is had: from a profiler, a handler, the command line, a notebook."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stepscope
from command_line import python, script, stepscope_run
from made_trace import Bytes, Call, trace_of_calls
from sample_traces import HOSTILE, recording
from stepscope import paddle, profile, record_function, schedule
from stepscope.cli import main
from stepscope.formats import export_trace
from stepscope.trace.model import Losses

if TYPE_CHECKING:
    from collections.abc import Callable


def is_report(path: Path) -> bool:
    page = path.read_text(encoding="utf-8")
    return page.startswith("<!doctype html>") and 'id="data"' in page


def title_of(path: Path) -> str:
    match = re.search(r"<title>(.*?)</title>", path.read_text(encoding="utf-8"), re.DOTALL)
    assert match
    return html.unescape(match[1])


def recorded_by_torchs_dialect(**options: Any) -> Any:
    profiler = profile(**options)
    with profiler, record_function("work"):
        pass
    return profiler


def recorded_by_paddles_dialect(**options: Any) -> Any:
    profiler = paddle.Profiler(**{"on_trace_ready": lambda _: None, **options})
    with profiler, paddle.RecordEvent("work"):
        pass
    return profiler


DIALECTS = pytest.mark.parametrize(
    "recorded", [recorded_by_torchs_dialect, recorded_by_paddles_dialect], ids=["torch", "paddle"]
)


class TestProfilers:
    @DIALECTS
    def test_export_html_writes_the_last_cycle(
        self, tmp_path: Path, recorded: Callable[..., Any]
    ) -> None:
        recorded().export_html(tmp_path / "report.html")
        assert is_report(tmp_path / "report.html")

    @DIALECTS
    def test_the_handler_writes_a_file_a_cycle_into_a_folder(
        self, tmp_path: Path, recorded: Callable[..., Any]
    ) -> None:
        folder = tmp_path / "a" / "b"
        recorded(on_trace_ready=stepscope.html_handler(folder, worker_name="worker/0"))
        (path,) = folder.iterdir()
        assert re.fullmatch(r"worker_0-[0-9a-f]{8}\.\d{19}\.html", path.name)
        assert is_report(path)

    def test_every_cycle_has_a_file_of_its_own(self, tmp_path: Path) -> None:
        handler = stepscope.html_handler(tmp_path)
        plan = schedule(wait=0, warmup=1, active=1)
        with profile(schedule=plan, on_trace_ready=handler) as profiler:
            for _ in range(4):
                profiler.step()
        assert len([path for path in tmp_path.iterdir() if is_report(path)]) >= 2

    def test_before_a_result_there_is_nothing_to_write(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="start"):
            profile().export_html(tmp_path / "report.html")
        with pytest.raises(RuntimeError, match="nothing was recorded yet"):
            paddle.Profiler(on_trace_ready=lambda _: None).export_html(tmp_path / "report.html")
        assert not list(tmp_path.iterdir())


class Tags(HTMLParser):
    """Collects what a browser would see as markup, and as text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class TestNotebooks:
    def test_a_trace_shows_its_overview(self) -> None:
        calls = [
            Call("ProfilerStep#1", 0, 100, category="user_annotation"),
            Call("aten::mm", 10, 60),
            Call("gemm", 20, 50, category="kernel", track=1),
        ]
        result = Tags(trace_of_calls(calls, [Bytes(15, 2048)])._repr_html_())
        assert {"aten::mm", "50.0 µs", "gemm", "30.0 µs", "2.00 KiB"} <= set(result.texts)
        assert any(text.startswith("1, median 100 µs") for text in result.texts)

    def test_losses_are_loud(self) -> None:
        assert "LOST" in recording(losses=Losses(7))._repr_html_()

    @pytest.mark.parametrize("name", [*HOSTILE, "\ud800 lone"], ids=lambda name: ascii(name[:12]))
    def test_names_are_text(self, name: str) -> None:
        page = trace_of_calls([Call("a", 0, 9)], host=name, versions={name: name})._repr_html_()
        page.encode()
        assert Tags(page).tags <= {"div", "table", "caption", "tr", "th", "td"}

    @DIALECTS
    def test_a_profiler_shows_its_last_cycle(self, recorded: Callable[..., Any]) -> None:
        assert "events in" in recorded()._repr_html_()

    def test_a_profiler_without_a_result_says_so(self) -> None:
        assert "no results yet" in profile()._repr_html_()
        profiler = paddle.Profiler(on_trace_ready=lambda _: None)
        assert "nothing was recorded yet" in profiler._repr_html_()


class TestCommand:
    @pytest.mark.parametrize(
        "name",
        ["t.stepscope", "t.json", "t.json.gz", "t.pb", "t.paddle_trace.json"],
    )
    def test_it_reads_any_trace_and_writes_beside_it(
        self, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        export_trace(recording(), tmp_path / name)
        assert main(["report", str(tmp_path / name)]) == 0
        (path,) = tmp_path.glob("*.html")
        assert is_report(path)
        assert title_of(path) == name
        output = capsys.readouterr()
        assert output.out == ""
        assert re.fullmatch(rf"stepscope: wrote {re.escape(str(path))}: 2 events, .*\n", output.err)

    def test_no_file_is_replaced_unasked(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        export_trace(recording(), tmp_path / "t.json")
        output = tmp_path / "r.html"
        output.write_text("mine")
        words = ["report", str(tmp_path / "t.json"), "-o", str(output)]
        assert main(words) != 0
        assert "add --force" in capsys.readouterr().err
        assert output.read_text() == "mine"
        assert main([*words, "--force"]) == 0
        assert is_report(output)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["missing.json"], "missing.json"),
            (["text.json"], "text.json"),
            (["t.json", "-o", "report.pdf"], "a report is one .html file"),
            (["t.json", "-o", "no/such/r.html"], "does not exist"),
        ],
    )
    def test_errors_are_one_line(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
        says: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        export_trace(recording(), "t.json")
        Path("text.json").write_text("no trace")
        assert main(["report", *words]) != 0
        output = capsys.readouterr().err
        assert says in output
        assert output.count("\n") == 1
        assert not list(tmp_path.glob("*.html"))

    def test_open_shows_it_in_the_browser(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str] = []
        monkeypatch.setattr("webbrowser.open", opened.append)
        export_trace(recording(), tmp_path / "a b.json")
        assert main(["report", str(tmp_path / "a b.json"), "--open"]) == 0
        assert opened == [(tmp_path / "a b.html").as_uri()]


# A program without any gets a short answer and no report.
HAS_AN_EVENT = "import stepscope\nwith stepscope.record_function('work'): pass"


class TestRun:
    def test_it_writes_the_report_and_prints_a_link(self, tmp_path: Path) -> None:
        script(tmp_path, HAS_AN_EVENT)
        done = stepscope_run("program.py", cwd=tmp_path)
        (path,) = tmp_path.glob("*.html")
        assert path.with_suffix(".stepscope").exists()
        assert re.search(rf"^  report +{re.escape(path.as_uri())} \(", done.stderr, re.MULTILINE)
        assert title_of(path) == "program.py"

    @pytest.mark.parametrize(
        ("words", "writes"),
        [
            (["--no-report"], False),
            (["--no-summary"], False),
            (["--no-summary", "--report"], True),
            (["-o", "trace.json"], True),
        ],
    )
    def test_it_does_as_it_is_told(self, tmp_path: Path, words: list[str], writes: bool) -> None:
        script(tmp_path, HAS_AN_EVENT)
        done = stepscope_run(*words, "program.py", cwd=tmp_path)
        assert bool(list(tmp_path.glob("*.html"))) == writes
        assert ("file://" in done.stdout + done.stderr) == writes
        if words == ["--no-report"]:
            command = re.search(r"-m stepscope report (\S+)$", done.stderr, re.MULTILINE)
            assert command
            again = python("-m", "stepscope", "report", command[1], cwd=tmp_path)
            assert again.returncode == 0, again.stderr

    def test_a_name_that_is_taken_leads_to_the_next(self, tmp_path: Path) -> None:
        script(tmp_path, "raise SystemExit(3)")
        (tmp_path / "t.html").write_text("mine")
        done = stepscope_run("-o", "t.stepscope", "program.py", cwd=tmp_path)
        assert done.returncode == 3
        assert (tmp_path / "t-2.html").as_uri() in done.stderr
        assert (tmp_path / "t.html").read_text() == "mine"
        assert "next" in done.stderr
