"""The report's page of source: which files it shows, and what stands beside their lines."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from command_line import stepscope_run
from made_trace import Bytes, Call, Sample, trace_of_calls
from report_data import PageData
from report_page import address
from sample_traces import HOSTILE
from stepscope import read_trace
from stepscope.report.base.payload import Payload
from stepscope.report.sections.source import add_source
from stepscope.trace.model import ThreadState

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

MODEL = "import torch\n\ndef forward(x):\n    y = x @ x\n    return y.sum()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, from which modules are imported."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(sys, "path", [str(home), *sys.path])
    return home


def trace_on(file: str, *lines: int, **info: Any) -> Trace:
    """Return a trace with one operator on each line: 10 µs and 1 KiB on the first, 20 and 2 …"""
    calls, memory, at = [], [], 0
    for i, line in enumerate(lines, 1):
        stack = ("torch/functional.py(1): f", f"{file}({line}): forward")
        calls.append(Call(f"aten::op{i}", at, at + 10 * i, stack=stack))
        memory.append(Bytes(at + 1, 1024 * i))
        at += 100
    return trace_of_calls(calls, memory, **info)


class Kept(Payload):
    """Keeps the values as they are."""

    def __init__(self, *, with_code: bool = True, code_from: list[Path] | None = None) -> None:
        super().__init__(with_code=with_code, code_from=code_from)
        self.values: dict[str, Any] = {}

    def add_value(self, name: str, value: Any) -> None:
        self.values[name] = value
        super().add_value(name, value)


def values_of(
    trace: Trace, *, with_code: bool = True, code_from: list[Path] | None = None
) -> dict[str, Any]:
    payload = Kept(with_code=with_code, code_from=code_from)
    add_source(trace, payload)
    payload.packed()
    return payload.values


class TestFiles:
    def test_the_text_of_the_users_file_is_in(self, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        values = values_of(trace_on("model.py", 4, 5))
        assert values["source.files"] == ["model.py"]
        assert values["source.texts"] == [MODEL]

    def test_not_where_the_report_is_to_be_without(self, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        values = values_of(trace_on("model.py", 4, 5), with_code=False)
        assert values["source.texts"] == [None]
        assert "@" not in str(values)

    def test_a_file_of_another_machine_is_lines_only(self) -> None:
        assert values_of(trace_on("/elsewhere/model.py", 4))["source.texts"] == [None]

    @pytest.mark.parametrize("name", ["secrets.txt", "id_rsa"])
    def test_a_trace_cannot_ask_for_what_is_no_program(self, folder: Path, name: str) -> None:
        (folder / name).write_text("secret", encoding="utf-8")
        assert values_of(trace_on(str(folder / name), 1))["source.texts"] == [None]

    def test_large_files_stay_out(self, folder: Path) -> None:
        (folder / "model.py").write_text("#" * 1_000_001, encoding="utf-8")
        assert values_of(trace_on("model.py", 1))["source.texts"] == [None]

    def test_of_many_files_the_dearest_are_in(self, folder: Path) -> None:
        calls = []
        for i in range(60):
            (folder / f"m{i}.py").write_text("x", encoding="utf-8")
            start = i * 100
            calls.append(Call("aten::mm", start, start + 1 + i, stack=(f"m{i}.py(1): f",)))
        values = values_of(trace_of_calls(calls))
        texts = dict(zip(values["source.files"], values["source.texts"], strict=True))
        assert sum(text is not None for text in texts.values()) == 50
        assert texts["m59.py"] == "x"
        assert texts["m0.py"] is None

    def test_bytes_that_are_no_text_are_shown_as_such(self, folder: Path) -> None:
        (folder / "model.py").write_bytes(b"x = '\xff\xfe'\n")
        assert values_of(trace_on("model.py", 1))["source.texts"] == ["x = '\ufffd\ufffd'\n"]

    def test_a_file_that_shares_a_librarys_name_is_the_users_where_it_lies(
        self, folder: Path
    ) -> None:
        (folder / "profile.py").write_text("x", encoding="utf-8")
        assert values_of(trace_on("profile.py", 1))["source.texts"] == ["x"]

    def test_a_file_among_the_installed_ones_is_not_the_users(self) -> None:
        stack = ("_pytest/main.py(5): f", "train.py(1): g")
        values = values_of(trace_of_calls([Call("aten::mm", 0, 10, stack=stack)]))
        assert values["source.files"] == ["train.py"]

    def test_files_are_found_from_the_folders_of_the_recording(self, tmp_path: Path) -> None:
        (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
        trace = trace_on("model.py", 4, code_folders=(f"{tmp_path}/",))
        assert values_of(trace)["source.texts"] == [MODEL]
        elsewhere = trace_on("model.py", 4, code_folders=("/no/such/folder/",))
        assert values_of(elsewhere)["source.texts"] == [None]

    def test_a_trace_does_not_decide_which_files_are_shown(self, tmp_path: Path) -> None:
        """Neither by a full path, nor by the folders that it names, nor through a link."""
        mine, shown = tmp_path / "mine", tmp_path / "shown"
        for item in (mine, shown):
            item.mkdir()
            (item / "settings.py").write_text("TOKEN = 1", encoding="utf-8")
        (shown / "link.py").symlink_to(mine / "settings.py")
        for trace in (
            trace_on(str(mine / "settings.py"), 1),
            trace_on("settings.py", 1, code_folders=(f"{mine}/",)),
            trace_on(str(shown / ".." / "mine" / "settings.py"), 1),
            trace_on(str(shown / "link.py"), 1),
        ):
            values = values_of(trace, code_from=[shown])
            assert (values["source.texts"], values["source.withheld"]) == ([None], [True])
        own = values_of(trace_on(str(shown / "settings.py"), 1), code_from=[shown])
        assert (own["source.texts"], own["source.withheld"]) == (["TOKEN = 1"], [False])

    def test_a_file_changed_after_the_recording_is_told(self, folder: Path) -> None:
        path = folder / "model.py"
        path.write_text(MODEL, encoding="utf-8")
        for changed_s, newer in ((5, False), (15, True)):
            os.utime(path, (changed_s, changed_s))
            trace = trace_on("model.py", 4, wall_offset_ns=10 * 10**9)
            assert values_of(trace)["source.newer"] == [newer]


def text(page: Any, selector: str) -> str:
    return str(page.locator(selector).text_content())


def shown(page: Any) -> dict[int, list[str]]:
    """Return the cells of every line."""
    script = "all => all.map(tr => [...tr.children].map(cell => cell.textContent))"
    rows = page.locator(".source-code tbody tr").evaluate_all(script)
    return {int(cells[-2]): [*cells[:-2], cells[-1]] for cells in rows}


def chosen(page: Any) -> str:
    return str(page.locator(".source-code tr[aria-current]").get_attribute("data-line"))


class TestPage:
    def test_costs_stand_beside_the_lines(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 4, 5), "source")
        lines = shown(page)
        assert lines[4] == ["10.0 µs", "10.0 µs", "1.00 KiB", "1", "    y = x @ x"]
        assert lines[5] == ["20.0 µs", "20.0 µs", "2.00 KiB", "1", "    return y.sum()"]
        assert lines[3] == ["", "", "", "", "def forward(x):"]

    def test_a_line_shows_its_operators(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 4, 5), "source")
        page.locator("tr[data-line='5']").click()
        assert text(page, ".source-line tbody th") == "aten::op2"
        assert "line=5" in address(page)
        page.locator("tr[data-line='3']").click()  # costs nothing, so there is nothing to show
        assert chosen(page) == "5"

    def test_an_operator_leads_to_the_timeline(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 4, 5), "source?file=model.py&line=5")
        page.locator(".source-line tbody tr").click()
        page.wait_for_selector("main.page-timeline")
        assert "q=aten%3A%3Aop2" in address(page)

    def test_keys_walk_over_the_lines_that_cost_something(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 1, 4, 5), "source")
        seen = []
        assert chosen(page) == "5"  # the most expensive one at first
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "h", "ArrowDown"):
            page.keyboard.press(key)
            seen.append(chosen(page))
        assert seen == ["4", "1", "1", "4", "5", "5"]

    def test_the_search_marks_lines(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 4), "source")
        page.keyboard.press("/")
        page.keyboard.type("Y")
        hits = page.locator("tr.found").evaluate_all("all => all.map(tr => tr.dataset.line)")
        assert hits == ["4", "5"]

    def test_files_are_chosen_from_a_list(self, reports: Any) -> None:
        calls = [
            Call("aten::mm", 0, 10, stack=("cheap.py(1): f",)),
            Call("aten::mm", 10, 90, stack=("dear.py(7): g",)),
        ]
        page = reports.open(trace_of_calls(calls), "source")
        assert page.locator(".source-name").all_text_contents() == ["dear.py", "cheap.py"]
        assert shown(page) == {7: ["80.0 µs", "80.0 µs", "1", "g"]}
        page.get_by_role("button", name="cheap.py").click()
        assert shown(page) == {1: ["10.0 µs", "10.0 µs", "1", "f"]}
        assert "file=cheap.py" in address(page)
        assert "not found" in text(page, ".source-main > .source-note")

    def test_without_code_the_page_says_so(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        path = reports.write(trace_on("model.py", 4), source=False)
        page = reports.open(path, "source")
        assert list(shown(page)) == [4]
        assert "written without code" in text(page, ".source-main > .source-note")

    def test_the_state_comes_back_from_the_address(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 4, 5), "source?file=model.py&line=5&by=bytes")
        assert chosen(page) == "5"
        assert page.get_by_label("Rank by").input_value() == "bytes"

    def test_a_trace_without_stacks_says_how_to_get_them(self, reports: Any) -> None:
        page = reports.open(trace_of_calls([Call("aten::mm", 0, 10)]), "source")
        assert "with_stack=True" in text(page, "#page")

    def test_a_click_moves_no_line(self, reports: Any, folder: Path) -> None:
        long = "\n".join(f"x{i} = {i}" for i in range(200))
        (folder / "model.py").write_text(long, encoding="utf-8")
        page = reports.open(trace_on("model.py", 20, 30, 100), "source?line=20")
        row = page.locator("tr[data-line='30']")
        row.scroll_into_view_if_needed()
        before = row.bounding_box()["y"]
        row.click()
        assert chosen(page) == "30"
        assert row.bounding_box()["y"] == before

    def test_code_is_in_sight_in_a_narrow_window(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        page = reports.open(trace_on("model.py", 4, 5), "source", size=(800, 900))
        box = page.locator("tr[data-line='4'] td.text").bounding_box()
        assert box["x"] < 500
        assert page.locator(".source-code").bounding_box()["height"] > 300


SLEEPS = "data.py(7): load"
MAIN = "train.py(30): <module>"


def sampled() -> Trace:
    """Return 500 µs of sleeping in a function, 100 of an operator, and steps around the latter."""
    steps = [
        Call(f"ProfilerStep#{i}", at, at + 50, "user_annotation") for i, at in ((0, 500), (1, 550))
    ]
    return trace_of_calls(
        [*steps, Call("aten::mm", 500, 600)],
        samples=[
            Sample(0, 500, ("<native call time.sleep>", SLEEPS, MAIN), ThreadState.BLOCKED),
            Sample(501, 600, ("torch/functional.py(3): f", MAIN), ThreadState.NATIVE),
        ],
    )


LOADS = '''"""A program
with a docstring.
"""
import time


def load():
    """Take a while."""
    time.sleep(0.5)
    return sum(i * i for i in range(300_000))


x = load()
'''


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", "operators", "calls", "all-calls"])
def test_lines_have_their_time_however_stacks_are_recorded(tmp_path: Path, mode: str) -> None:
    (tmp_path / "loads.py").write_text(LOADS, encoding="utf-8")
    done = stepscope_run(
        *("--stacks", mode, "-o", "t.stepscope", "--no-summary", "loads.py"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    page = PageData.of(add_source, read_trace(tmp_path / "t.stepscope"))
    assert page.values["source.files"] == ["loads.py"]  # and none of our own

    def of_lines(measure: str) -> dict[int, int]:
        pairs = zip(page.column("source.line"), page.column(f"source.{measure}"), strict=True)
        return {int(line): int(ns) for line, ns in pairs if ns}

    waiting_ns, total_ns = of_lines("waiting")[9], of_lines("total")
    assert waiting_ns > 0
    assert total_ns[13] >= total_ns[9] >= waiting_ns
    assert not {1, 2, 3, 8} & set(total_ns)  # docstrings
    assert of_lines("python").get(9, 0) < waiting_ns  # a sample may meet it on its way to sleep


class TestSamples:
    def test_each_part_of_the_time_has_its_column(self, reports: Any) -> None:
        page = reports.open(sampled(), "source?when=run&file=data.py")
        headings = page.locator(".source-code thead th").all_text_contents()
        assert headings == ["Self", "Total", "Operators", "Waiting", "Line", "Function"]
        assert shown(page)[7] == ["500 µs", "500 µs", "", "500 µs", "load"]
        page.get_by_role("button", name="train.py").click()
        # The line that calls has in its total what the other one took.
        assert shown(page)[30] == ["99.0 µs", "599 µs", "99.0 µs", "", "<module>"]

    def test_what_ran_on_a_line_is_named(self, reports: Any) -> None:
        page = reports.open(sampled(), "source?when=run&file=train.py&line=30")
        assert text(page, ".source-line tbody tr") == "aten::mmoperator99.0 µs"

    def test_it_is_about_the_steady_steps_at_first(self, reports: Any) -> None:
        page = reports.open(sampled(), "source")
        assert page.get_by_label("Time").input_value() == "steps"
        assert chosen(page) == "30"
        page.get_by_label("Time").select_option("run")
        page.wait_for_function("() => location.hash.includes('when=run')")
        assert page.locator(".source-name").all_text_contents() == ["data.py", "train.py"]


class TestHostile:
    CODE = (
        "</script><script>alert(1)</script>\n"
        "\t\tx = '<img src=x onerror=alert(2)>'  # \u202e \u2028 \0 {{data}}\n"
        + "y" * 50_000
        + "\n"
    )

    def test_code_is_text(self, reports: Any, folder: Path) -> None:
        (folder / "model.py").write_bytes(self.CODE.encode() + b"\xff\xfe\n")
        page = reports.open(trace_on("model.py", 1, 2, 3, 4), "source?line=3")
        lines = [cells[-1] for cells in shown(page).values()]
        assert lines[0] == "</script><script>alert(1)</script>"
        assert lines[1].startswith("\t\tx = '<img src=x onerror=alert(2)>'")
        assert lines[2] == "y" * 2000 + "…"
        assert lines[3] == "\ufffd\ufffd"

    @pytest.mark.slow
    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_names_are_text(self, reports: Any, name: str) -> None:
        file = f"my {name}/model.py"  # a name in angle brackets is no file
        stack = (f"{file}(1): {name}",)
        trace = trace_of_calls([Call(name, 0, 10, stack=stack)])
        page = reports.open(trace, "source")
        assert text(page, ".source-name") == file[-400:]
        assert shown(page)[1][-1] == (name if len(name) <= 2000 else name[:2000] + "…")
        page.locator(".source-code tbody tr").click()
        assert text(page, ".source-line strong") == f"{file[-200:]}:1"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_recording_of_torch_shows_its_own_file(reports: Any, theme: str) -> None:
    torch = pytest.importorskip("torch")
    import stepscope

    layer = torch.nn.Linear(8, 8)
    with stepscope.profile(with_stack=True, profile_memory=True) as prof:
        for _ in range(3):
            layer(torch.randn(4, 8)).sum().backward()
    page = reports.open(prof.trace, "source", theme=theme)
    page.keyboard.press("h")
    reports.shot(page, f"source-{theme}")
    line = int(chosen(page))
    with open(__file__, encoding="utf-8") as own:  # noqa: PTH123
        code = own.read().splitlines()
    assert shown(page)[line][-1] == code[line - 1]
