"""The report's tables: the numbers are the analyses', and the page shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_report import LINES
from made_trace import Call, trace_of_calls
from report_data import PageData
from report_page import address
from sample_traces import HOSTILE, ONE_RANK, sample_name
from stepscope import read_trace
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.device.kernels import kernel_table
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.host.averages import single_events
from stepscope.analysis.host.modules import module_table
from stepscope.analysis.memory.by_event import with_memory
from stepscope.report.base.payload import Payload, add_table, known_or_nan
from stepscope.report.sections.flame import add_flame
from stepscope.report.sections.kernels import add_kernels
from stepscope.report.sections.modules import add_modules
from stepscope.report.sections.operators import add_operators

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


def add_tables(trace: Trace, payload: Payload) -> None:
    for section in (add_operators, add_kernels, add_modules, add_flame):
        section(trace, payload)


def by_name(table: dict[str, list[Any]], key: str) -> dict[str, Any]:
    return dict(zip(table["name"], table[key], strict=True))


# ---- what the page holds


def test_operators_have_the_times_bytes_and_flops_of_the_averages(made: Trace) -> None:
    page = PageData.of(add_tables, made)
    table = in_scope(page, "name", "run")
    assert by_name(table, "count")["aten::mm"] == 2
    assert by_name(table, "self_cpu_ns")["aten::mm"] == 21_000
    assert by_name(table, "cpu_ns")["aten::mm"] == 24_000
    assert by_name(table, "mean_ns")["aten::mm"] == 12_000
    assert by_name(table, "device_ns")["ProfilerStep*"] == 38_000
    assert by_name(table, "self_device_ns")["aten::mm"] == 38_000
    assert by_name(table, "flops")["aten::mm"] == 2 * 2 * 3 * (4 + 8)
    assert by_name(table, "self_cpu_bytes")["aten::mm"] == 64
    assert by_name(table, "device_bytes")["aten::mm"] == 4096
    assert by_name(table, "kind")["cudaLaunchKernel"] == "runtime call"
    assert "gemm_64" not in table["name"]


def test_groupings_tell_calls_of_one_name_apart(made: Trace) -> None:
    page = PageData.of(add_tables, made)
    assert page.values["operators.groupings"] == ["name", "shapes", "stack", "module"]

    def of_mm(grouping: str) -> dict[str, int]:
        table = in_scope(page, grouping, "steps")
        rows = [row for row, name in enumerate(table["name"]) if name == "aten::mm"]
        return {table[grouping][row]: table["cpu_ns"][row] for row in rows}

    assert of_mm("shapes") == {"[[2, 3], [3, 4]]": 18_000, "[[2, 3], [3, 8]]": 6_000}
    assert of_mm("stack") == {"\n".join(LINES): 18_000, LINES[1]: 6_000}
    assert of_mm("module") == {"fc": 24_000}


def test_a_trace_that_knows_less_has_fewer_columns_and_groupings() -> None:
    page = PageData.of(add_tables, trace_of_calls([Call("aten::mm", 0, 10)]))
    assert page.values["operators.groupings"] == ["name"]
    assert page.values["flame.views"] == ["calls"]
    assert set(page.table("operators.name")) == {
        *("name", "kind", "count", "self_cpu_ns", "cpu_ns", "mean_ns", "share")
    }
    assert "kernels.name.rows" not in page.values
    assert "modules.rows" not in page.values


def test_kernels_are_told_apart_by_who_launched_them(made: Trace) -> None:
    page = PageData.of(add_tables, made)
    kernels = page.table("kernels.name")
    assert kernels["name"] == ["gemm_64"]
    assert kernels["total_ns"] == [38_000]
    assert kernels["operator"] == ["aten::mm"]
    shapes = page.table("kernels.shapes")
    assert shapes["shapes"] == ["[[2, 3], [3, 4]]", "[[2, 3], [3, 8]]"]
    assert shapes["total_ns"] == [30_000, 8_000]
    assert page.table("kernels.module")["module"] == ["fc"]
    assert page.table("copies")["total_ns"] == [3_000]
    assert "registers" not in kernels, "the trace does not tell them"


def test_modules_come_as_a_tree(made: Trace) -> None:
    table = PageData.of(add_tables, made).table("modules")
    assert table["label"] == ["Net", "fc", "(outside of modules)"]
    assert table["depth"] == [0, 1, 0]
    assert table["total_ns"][:2] == [55_000, 30_000]
    assert table["device_ns"][:2] == [38_000, 38_000]


def test_modules_stand_below_what_their_names_say_whenever_they_were_called() -> None:
    trace = trace_of_calls(
        [
            Call("Net", 0, 100, "module"),
            Call("b", 1, 5, "module"),
            Call("a.1.x", 6, 20, "module"),  # nobody calls the list a, nor a.1
            Call("b.c", 25, 50, "module"),  # a part of b that others use, too
        ]
    )
    table = PageData.of(add_tables, trace).table("modules")
    assert list(zip(table["label"], table["depth"], strict=True)) == [
        *(("Net", 0), ("b", 1), ("c", 2), ("a.1.x", 1))
    ]


def in_scope(page: PageData, grouping: str, when: str, where: str = "") -> dict[str, list[Any]]:
    """Return the rows of a table of operators that are about some time and some threads."""
    scopes = [(scope["when"], scope["where"]) for scope in page.values["operators.scopes"]]
    table = page.table(f"operators.{grouping}")
    of = table.pop("scope", [0] * len(table["name"]))
    rows = [row for row, scope in enumerate(of) if scope == scopes.index((when, where))]
    return {key: [column[row] for row in rows] for key, column in table.items()}


def check_totals(trace: Trace) -> PageData:
    """Compare every total of the page with the analysis that it comes from."""
    page = PageData.of(add_tables, trace)
    item = single_events(with_memory(call_tree(trace)), with_flops=True)
    for grouping in page.values["operators.groupings"]:
        table = in_scope(page, grouping, "run")
        assert sum(table["count"]) == np.count_nonzero(~item.is_device)
        own_ns = sum(table["self_cpu_ns"]) + sum(table.get("waiting_ns", []))
        assert own_ns == item.total_self_cpu_ns
        assert sum(table.get("flops", [])) == flops_of(trace).sum()
        if item.self_cpu_bytes is not None:
            assert sum(table.get("self_cpu_bytes", [])) == item.self_cpu_bytes.sum()
    kernels = kernel_table(trace)
    for grouping in page.values.get("kernels.groupings", []):
        table = page.table(f"kernels.{grouping}")
        assert sum(table["total_ns"]) == kernels.total_ns.sum()
        assert sum(table["count"]) == kernels.count.sum()
    if "modules.rows" in page.values:
        modules = module_table(trace)
        table = page.table("modules")
        assert sorted(table["name"]) == sorted(modules.name)
        assert sum(table["self_ns"]) == modules.self_ns.sum()
        assert sum(table.get("flops", [])) == modules.flops.sum()
    for view in page.values["flame.views"]:
        assert page.column(f"flame.{view}.cells.cpu_ns").sum() == item.total_self_cpu_ns
        if item.total_self_device_ns:
            cells = page.column(f"flame.{view}.cells.device_ns")
            assert cells.sum() == item.total_self_device_ns
    return page


def test_totals_of_a_made_trace(made: Trace) -> None:
    check_totals(made)


def test_totals_of_a_recording() -> None:
    page = check_totals(recording())
    assert page.values["operators.groupings"] == ["name", "shapes", "stack", "module"]
    assert page.values["flame.views"] == ["stacks", "calls"]
    assert page.values["flame.calls.metrics"] == ["cpu_ns", "cpu_bytes"]


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_totals_of_samples(path: Path) -> None:
    check_totals(read_trace(path))


def recording() -> Trace:
    """Record a training step of a small model, with all that can be recorded on a CPU."""
    torch = pytest.importorskip("torch")
    import stepscope
    from recording import trace_of
    from stepscope.record.options import RecordOptions
    from stepscope.record.source import make_sources

    options = RecordOptions(
        shapes=True, memory=True, modules=True, stacks=stepscope.StackMode.OPERATORS
    )
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    session = stepscope.Session(make_sources(options))
    session.start()
    with stepscope.record_function("training"):
        model(torch.ones(2, 8)).sum().backward()
    session.stop()
    return trace_of(session)


def test_tables_refuse_columns_of_unequal_length() -> None:
    with pytest.raises(ValueError, match="'odd' has columns of \\[1, 2\\] rows"):
        add_table(Payload(), "odd", {"name": ("a",), "ns": np.zeros(2, np.int64)})


def test_unknown_numbers_are_no_numbers() -> None:
    assert np.isnan(known_or_nan(np.array([3, -1]))).tolist() == [False, True]
    assert known_or_nan(np.array([3, 4])).dtype.kind == "i"


def test_half_a_character_does_not_stop_the_page() -> None:
    payload = Payload()
    add_table(payload, "texts", {"name": ("\ud800 half", "é")})
    assert PageData(payload.packed()).table("texts")["name"] == ["? half", "é"]


# ---- what the page shows


def names(page: Any) -> list[str]:
    return page.locator(".table tbody th").all_text_contents()


def test_a_click_sorts_and_the_url_keeps_it(made: Trace, reports: Any) -> None:
    page = reports.open(made, "operators?kind=all")
    heading = page.get_by_role("columnheader", name="Total time")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert names(page)[0] == "ProfilerStep*"
    page.keyboard.press("Enter")  # the heading has kept the focus
    assert heading.get_attribute("aria-sort") == "ascending"
    assert names(page)[-1] == "ProfilerStep*"
    assert "sort=cpu_ns" in address(page)
    page.reload()
    assert names(page)[-1] == "ProfilerStep*"


def test_the_filter_works_as_one_types(made: Trace, reports: Any) -> None:
    page = reports.open(made, "operators")
    assert set(names(page)) == {"aten::mm", "aten::relu"}
    page.keyboard.press("/")
    page.keyboard.type("REL")
    assert names(page) == ["aten::relu"]
    assert "1 of 2 operators" in page.locator(".table-tools").text_content()
    assert "filter=REL" in address(page)
    page.keyboard.type("x")
    assert names(page) == []
    assert "Nothing matches" in page.locator(".table-more").text_content()


def test_groupings_and_kinds_can_be_chosen(made: Trace, reports: Any) -> None:
    page = reports.open(made, "operators")
    page.get_by_label("Group by").select_option("shapes")
    assert names(page).count("aten::mm") == 2
    page.get_by_label("Show").select_option("all")
    assert "cudaLaunchKernel" in names(page)
    assert "by=shapes" in address(page)
    assert "kind=all" in address(page)


def test_a_row_shows_its_details_by_mouse_and_by_keyboard(made: Trace, reports: Any) -> None:
    page = reports.open(made, "operators")
    details = page.get_by_role("complementary", name="Details")
    page.get_by_role("rowheader", name="aten::mm").click()
    assert details.get_by_role("heading", level=2).text_content() == "aten::mm"
    assert "[[2, 3], [3, 8]]" in details.text_content()
    assert "model.py(3): forward" in details.text_content()
    page.keyboard.press("Escape")
    assert not details.is_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert details.get_by_role("heading", level=2).text_content() == "aten::relu"
    page.reload()
    assert details.get_by_role("heading", level=2).text_content() == "aten::relu"


def test_kernels_have_their_page_and_small_tables(made: Trace, reports: Any) -> None:
    page = reports.open(made, "kernels")
    assert names(page)[0] == "gemm_64"
    headings = page.get_by_role("heading", level=2).all_text_contents()
    assert headings == ["Devices", "Why devices were idle", "Launch queues", "Copies"]


def test_modules_open_and_close(made: Trace, reports: Any) -> None:
    page = reports.open(made, "modules")
    model = page.get_by_role("row", name="Net")
    assert model.get_attribute("aria-expanded") == "true"
    model.focus()
    page.keyboard.press("ArrowLeft")
    assert model.get_attribute("aria-expanded") == "false"
    assert not page.get_by_role("rowheader", name="fc").is_visible()
    page.locator(".twisty", has_text="▸").click()
    assert page.get_by_role("rowheader", name="fc").is_visible()
    page.get_by_role("searchbox").fill("linear")
    assert len(names(page)) == 2  # what was found, and the model around it


def test_a_big_table_shows_more_on_demand(reports: Any) -> None:
    trace = trace_of_calls([Call(f"op {i}", 10 * i, 10 * i + 5) for i in range(1000)])
    page = reports.open(trace, "operators")
    assert page.locator("tbody tr").count() == 200
    page.get_by_role("button", name="Show 200 more").click()
    assert page.locator("tbody tr").count() == 400
    assert page.evaluate("document.activeElement.dataset.row") == "200"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["operators", "modules", "kernels", "flame"])
def test_hostile_names_are_shown_as_text(place: str, reports: Any) -> None:
    marks = [f"{text}<img src=x onerror=alert({i})>" for i, text in enumerate(HOSTILE)]
    calls = []
    for i, text in enumerate(marks):
        start = 100 * i
        calls += [
            Call(text, start, start + 90, "module", rest='"Class": "</script>"'),
            Call(text, start + 10, start + 80, stack=(text,)),
            Call("cudaLaunchKernel", start + 12, start + 15, "cuda_runtime", correlation=i + 1),
            Call(text, start + 20, start + 60 + i, "kernel", track=1, correlation=i + 1),
        ]
    page = reports.open(trace_of_calls(calls), place)
    assert page.locator("#page img").count() == 0
    if place == "flame":
        page.get_by_role("searchbox").fill("</script>")
        page.locator("canvas").focus()
        page.keyboard.press("ArrowDown")
        return
    shown = " ".join(names(page))
    assert all(text[:20] in shown for text in marks)
    assert "</script><script>alert(1)" in shown
    if place != "modules":
        page.locator("tbody th", has_text="alert(1)").first.click()
        assert marks[1] in page.get_by_role("complementary", name="Details").text_content()


def test_every_table_can_be_copied(made: Trace, reports: Any) -> None:
    page = reports.open(made, "operators?sort=name")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy CSV").click()
    page.get_by_role("button", name="Copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("Name,Calls,Self time (ns)")
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["aten::mm", "2", "21000"],
        ["aten::relu", "1", "10000"],
    ]


# ---- what the numbers are about


THREADS = trace_of_calls(
    [
        Call("ProfilerStep#1", 0, 100, "user_annotation"),
        Call("aten::mm", 10, 60),
        Call("ProfilerStep#2", 100, 200, "user_annotation"),
        Call("aten::mm", 110, 160),
        Call("save", 300, 900),
        Call("worker.py(3): run", 0, 1000, "python_function", track=1),
        Call("queue.py(154): get", 1, 999, "python_function", track=1),
        Call("aten::copy_", 0, 150, track=2),
    ],
)


def test_operators_are_about_a_time_and_threads() -> None:
    page = PageData.of(add_tables, THREADS)
    scopes = [(scope["when"], scope["where"]) for scope in page.values["operators.scopes"]]
    assert scopes == [(when, where) for when in ("steps", "run") for where in ("", "0", "1", "2")]
    run, steps = in_scope(page, "name", "run"), in_scope(page, "name", "steps")
    assert by_name(run, "self_cpu_ns")["save"] == 600_000
    assert "save" not in steps["name"]
    assert by_name(steps, "self_cpu_ns")["aten::copy_"] == 150_000
    assert by_name(in_scope(page, "name", "steps", "0"), "count") == {
        "ProfilerStep*": 2,
        "aten::mm": 2,
    }


def test_waiting_is_no_time_that_runs() -> None:
    page = PageData.of(add_tables, THREADS)
    run = in_scope(page, "name", "run")
    assert by_name(run, "waiting_ns")["queue.py(154): get"] == 998_000
    assert by_name(run, "self_cpu_ns")["queue.py(154): get"] == 0
    assert sum(run["share"]) == pytest.approx(1.0)
    cells = page.column("flame.calls.cells.waiting")
    assert page.column("flame.calls.cells.cpu_ns")[cells > 0].tolist() == [998_000]


def test_tables_and_flame_graph_can_be_about_one_thread(reports: Any) -> None:
    page = reports.open(THREADS, "operators")
    assert set(names(page)) == {"aten::mm", "aten::copy_"}
    page.get_by_label("Thread").select_option("2")
    assert names(page) == ["aten::copy_"]
    page.get_by_label("Time").select_option("run")
    assert names(page) == ["aten::copy_"]
    assert "thread=2" in address(page)
    page.keyboard.press("6")
    element = page.locator(".flame-details")
    page.wait_for_function("() => document.title.startsWith('Flame')")
    assert "351 µs in all: running time of all threads" in element.text_content()
    page.get_by_label("Waiting").select_option("shown")
    assert "550 µs in all: time of all threads in the steady steps" in element.text_content()
    page.get_by_label("Thread").select_option("2")
    assert "150 µs in all: time of thread 22 in the steady steps" in element.text_content()
