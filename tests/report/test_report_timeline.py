"""The timeline's page: its rows, flows and details, and that it loses no box."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_trace import Bytes, Call, trace_of_calls
from sample_traces import HOSTILE, SAMPLES, recording, sample_name, sample_path
from stepscope import read_trace
from stepscope.analysis.base.tree import lanes
from stepscope.analysis.calls.backward import forward_backward
from stepscope.report.build import export_html
from stepscope.trace.model import SliceFlags

if TYPE_CHECKING:
    from report_page import Reports
    from stepscope.trace.model import Trace

ROOT = Path(__file__).parents[2]
SHAPES = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'


def training() -> Trace:
    """Two steps: a product in a module and its backward function, and a kernel that it launches."""
    calls = [
        call
        for step, at in enumerate((0, 1000))
        for call in (
            Call(f"ProfilerStep#{step}", at, at + 900, "user_annotation"),
            Call("net.head", at + 50, at + 300, "module"),
            Call("aten::mm", at + 100, at + 280, rest=SHAPES, sequence=step, stack=("a.py(3): f",)),
            Call("cudaLaunchKernel", at + 120, at + 140, "cuda_runtime", correlation=step + 7),
            Call("sgemm", at + 400, at + 800, "kernel", track=2, correlation=step + 7),
            Call(
                "MmBackward0",
                *(at + 500, at + 700),
                track=1,
                flags=SliceFlags.BACKWARD,
                sequence=step,
                forward_thread=1,
            ),
        )
    ]
    return trace_of_calls(calls, [Bytes(130, 4096)])


def row_of(trace: Trace, name: str) -> int:
    return list(trace.names()).index(name)


class TestLanes:
    def test_nested_slices_stand_at_their_depth(self) -> None:
        trace = training()
        assert (lanes(trace) == trace.slices.depth).all()

    def test_overlapping_slices_stand_side_by_side(self) -> None:
        spans = [(0, 10), (5, 15), (8, 9), (12, 20), (20, 30), (20, 20)]
        calls = [Call(f"k{i}", *span, "kernel") for i, span in enumerate(spans)]
        trace = trace_of_calls(calls)
        lane = dict(zip(trace.names(), lanes(trace).tolist(), strict=True))
        assert lane["k0"] == 0
        assert lane["k1"] == 1
        assert lane["k2"] > lane["k1"]
        assert lane["k3"] == 0
        assert lane["k4"] == 0
        assert lane["k5"] != lane["k4"]

    def test_a_child_stands_below_its_parent(self) -> None:
        calls = [Call("a", 0, 10), Call("b", 5, 20), Call("in b", 11, 19), Call("in a", 1, 4)]
        trace = trace_of_calls(calls)
        lane = dict(zip(trace.names(), lanes(trace).tolist(), strict=True))
        assert lane["b"] > lane["a"]
        assert lane["in b"] > lane["b"]
        assert lane["in a"] > lane["a"]

    def test_nothing_overlaps_in_any_crowd(self) -> None:
        numbers = np.random.default_rng(7)
        starts = numbers.integers(0, 3_000, 600).tolist()
        lengths = numbers.choice([0, 1, 2, 40, 300], 600).tolist()
        tracks = numbers.integers(0, 3, 600).tolist()
        calls = [
            Call("x", start, start + length, track=track)
            for start, length, track in zip(starts, lengths, tracks, strict=True)
        ]
        self.assert_apart(trace_of_calls(calls))

    @pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
    def test_nothing_overlaps_in_real_traces(self, path: Path) -> None:
        self.assert_apart(read_trace(path))

    def assert_apart(self, trace: Trace) -> None:
        slices, lane = trace.slices, lanes(trace)
        order = np.lexsort((lane, slices.track))
        start, end = slices.start_ns[order], slices.end_ns[order]
        same = (np.diff(slices.track[order]) == 0) & (np.diff(lane[order]) == 0)
        assert (start[1:] >= end[:-1])[same].all()
        inner = np.flatnonzero(slices.parent >= 0)
        assert (lane[inner] > lane[slices.parent[inner]]).all()


def test_backward_functions_know_their_operators() -> None:
    trace = training()
    forward, backward = forward_backward(trace)
    assert [trace.name_of(int(row)) for row in forward] == ["aten::mm"] * 2
    assert [trace.name_of(int(row)) for row in backward] == ["MmBackward0"] * 2
    assert (np.diff(backward) > 0).all()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_no_box_is_lost_in_real_traces(tmp_path: Path) -> None:
    """The same test as on made-up slices, on traces that overlap and nest deeply."""
    chosen = [sample_path(name) for name in ("cpu_training", "made_two_gpus")]
    pages = [tmp_path / f"{i}.html" for i in range(len(chosen))]
    for path, page in zip(chosen, pages, strict=True):
        export_html(read_trace(path), page)
    command = ["node", "--import", "./tests/report/js/loader.mjs", "--test"]
    done = subprocess.run(
        [*command, "tests/report/js/timeline_boxes.test.mjs"],
        cwd=ROOT,
        env={**os.environ, "STEPSCOPE_REPORTS": ":".join(map(str, pages))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert all(f"no box lost in {page.name}" in done.stdout for page in pages)


# The colour of the box of ProfilerStep#0, where no name is.
COLOUR = """() => {
  const canvas = document.querySelector(".timeline-canvas");
  const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, -canvas.width / 2, -(22 + 24 + 22 + 8));
  return copy.getImageData(0, 0, 1, 1).data.join();
}"""


def details(page: Any) -> str:
    return str(page.inner_text(".timeline-details"))


class TestPage:
    def test_a_link_selects_a_slice(self, reports: Reports) -> None:
        trace = training()
        page = reports.open(trace, f"timeline?sel={row_of(trace, 'aten::mm')}")
        text = details(page)
        for part in ("aten::mm", "180 µs", "160 µs", "net.head", "float [2,3]", "a.py(3): f"):
            assert part in text
        assert "4.00 KiB" not in text  # the launch inside it asked for that
        assert "48 FLOP" in text
        for title in ("Parent", "Children", "Launched on the device", "Backward functions"):
            assert title in text

    def test_links_jump_along_flows(self, reports: Reports) -> None:
        trace = training()
        page = reports.open(trace, f"timeline?sel={row_of(trace, 'aten::mm')}")
        page.get_by_role("button", name="sgemm").click()
        assert page.inner_text(".timeline-details h2") == "sgemm"
        page.get_by_role("button", name="cudaLaunchKernel").click()
        assert "4.00 KiB" in details(page)
        page.get_by_role("button", name="aten::mm").click()
        page.get_by_role("button", name="MmBackward0").click()
        assert "Forward operator" in details(page)
        page.wait_for_function(
            f"() => location.hash.includes('sel={row_of(trace, 'MmBackward0')}')"
        )

    def test_the_keyboard_reaches_slices(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?from=0&to=2000000")
        heading = page.locator(".timeline-details h2")
        page.keyboard.press("Shift+ArrowRight")
        assert heading.inner_text() == "sgemm"
        page.keyboard.press("Shift+ArrowRight")
        assert "Step\n1" in details(page)
        page.get_by_label("Search names").fill("PROFILER")
        assert page.inner_text(".timeline-tools output") == "2 hits"
        page.keyboard.press("Enter")
        page.locator(".timeline-canvas").focus()
        page.keyboard.press("n")
        values = [heading.inner_text()]
        page.keyboard.press("Shift+ArrowDown")
        values.append(heading.inner_text())
        page.keyboard.press("Shift+ArrowUp")
        page.keyboard.press("Shift+N")
        values.append(heading.inner_text())
        assert values == ["ProfilerStep#1", "net.head", "ProfilerStep#0"]
        page.keyboard.press("Escape")  # the search first, then the selection
        assert page.inner_text(".timeline-tools output") == ""
        assert heading.inner_text() == "ProfilerStep#0"
        page.keyboard.press("Escape")
        assert heading.inner_text() == "Nothing selected"

    def test_it_opens_on_a_step_and_all_shows_everything(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline")
        assert page.locator(".timeline-place").inner_text() == "1.08 ms shown"  # 0.9, and room
        page.keyboard.press("0")
        assert page.locator(".timeline-place").inner_text() == "1.98 ms shown"
        page.keyboard.press("]")  # from everything to the first step, not to one in the middle
        page.wait_for_function("() => location.hash.includes('to=990000')")

    def test_a_search_that_is_left_leaves_the_colours(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline")
        before = page.evaluate(COLOUR)
        page.keyboard.press("/")
        page.keyboard.type("sgemm")
        page.wait_for_function(f"before => ({COLOUR})() !== before", arg=before)
        page.keyboard.press("Escape")
        page.wait_for_function(f"before => ({COLOUR})() === before", arg=before)
        assert page.evaluate("document.activeElement.className") == "timeline-canvas"

    def test_keys_move_the_view_and_the_address_tells(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?from=100000&to=300000")
        shown = page.locator(".timeline-place")
        assert shown.inner_text() == "200 µs shown"
        page.keyboard.press("w")
        assert shown.inner_text() == "148 µs shown"
        page.keyboard.press("]")
        page.wait_for_function("() => location.hash.includes('from=910000&to=1990000')")
        page.keyboard.press("[")
        page.wait_for_function("() => location.hash.includes('to=990000')")

    def test_an_interval_is_summed(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?interval=0-600000")
        rows = page.locator(".timeline-sums tbody tr").all_inner_texts()
        assert "sgemm\t1\t200 µs\t200 µs" in rows
        assert "net.head\t1\t250 µs\t70.0 µs" in rows
        assert "ProfilerStep#0\t1\t600 µs\t350 µs" in rows
        assert len(rows) == 6
        page.get_by_label("Rows to sum").select_option("device 10: stream 22")
        assert page.locator(".timeline-sums tbody tr").all_inner_texts() == [
            "sgemm\t1\t200 µs\t200 µs"
        ]

    def test_shift_and_drag_select_an_interval(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?from=0&to=1000000")
        box = page.locator(".timeline-canvas").bounding_box()
        page.keyboard.down("Shift")
        page.mouse.move(box["x"] + 10, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 210, steps=4)
        page.mouse.up()
        page.keyboard.up("Shift")
        assert page.inner_text(".timeline-details h2").startswith("Interval of 4")

    def test_a_click_selects_what_is_under_it(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?from=0&to=1000000")
        box = page.locator(".timeline-canvas").bounding_box()
        page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + 22 + 8)
        assert page.inner_text(".timeline-details h2") == "sgemm"
        page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + 22 + 8)
        assert page.inner_text(".timeline-details h2") == "Nothing selected"

    def test_the_wheel_zooms_at_the_pointer_and_a_drag_moves(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?from=0&to=1000000")
        box = page.locator(".timeline-canvas").bounding_box()
        at = (box["x"] + box["width"] * 0.6, box["y"] + 22 + 8)
        page.mouse.move(*at)
        page.mouse.wheel(0, -1000)
        page.wait_for_function("() => location.hash.includes('to=')")
        assert page.inner_text(".timeline-tip") == "sgemm — 400 µs"
        page.keyboard.press("s")  # what is under the pointer is another one then
        assert not page.locator(".timeline-tip").is_visible()
        page.keyboard.press("w")
        page.mouse.click(*at)
        assert page.inner_text(".timeline-details h2") == "sgemm"
        shown = page.inner_text(".timeline-place")
        assert shown == "223 µs shown"
        page.mouse.down()
        page.mouse.move(at[0] - 300, at[1], steps=3)
        page.mouse.up()
        assert page.inner_text(".timeline-place") == shown
        page.wait_for_function("() => Number(/from=(\\d+)/.exec(location.hash)[1]) > 520000")

    def test_a_click_on_a_step_shows_it(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline?from=0&to=2000000")
        box = page.locator(".timeline-axis").bounding_box()
        page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + 33)
        page.wait_for_function("() => location.hash.includes('from=910000&to=1990000')")

    def test_what_did_not_end_is_marked(self, reports: Reports) -> None:
        calls = [Call("open", 0, 100, flags=SliceFlags.UNFINISHED), Call("late", 150, 200)]
        page = reports.open(trace_of_calls(calls), "timeline?from=0&to=200000")
        red = page.evaluate(
            """() => {
              const canvas = document.querySelector(".timeline-canvas");
              const {data} = canvas.getContext("2d").getImageData(0, 36, canvas.width, 1);
              const found = [];
              for (let x = 0; x < canvas.width; x++)
                if (data[4 * x] > 150 && data[4 * x + 1] < 60) found.push(x / canvas.width);
              return found;
            }"""
        )
        assert len(red) == 3
        assert all(0.49 < x < 0.5 for x in red)
        page.keyboard.press("Shift+ArrowRight")
        assert "unfinished when recording stopped" in details(page)

    def test_rows_fold(self, reports: Reports) -> None:
        page = reports.open(training(), "timeline")
        heads = page.locator(".timeline-name")
        before = heads.count()
        page.locator(".timeline-group").first.click()
        assert heads.count() < before
        assert page.locator(".timeline-group").first.get_attribute("aria-expanded") == "false"

    @pytest.mark.slow
    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_hostile_names_are_text(self, reports: Reports, name: str) -> None:
        rest = '"broken": </script><img src=x onerror=alert(1)>'
        calls = [Call(name, 0, 100, rest=rest, stack=(name,)), Call(name, 10, 20)]
        page = reports.open(trace_of_calls(calls), "timeline?sel=0")
        assert page.text_content(".timeline-details h2") == name
        assert page.locator("#page img").count() == 0

    @pytest.mark.slow
    def test_small_traces(self, reports: Reports) -> None:
        empty = reports.open(recording([]), "timeline")
        assert "no events" in empty.inner_text("#page")
        for span in ((5, 5), (5, 90)):
            page = reports.open(trace_of_calls([Call("only", *span)]), "timeline")
            page.keyboard.press("Shift+ArrowRight")
            assert page.inner_text(".timeline-details h2") == "only"
            page.keyboard.press("f")

    def test_what_is_painted_is_what_is_there(self, reports: Reports) -> None:
        """A row of boxes two pixels wide, one in three left out: each pixel is as it should be."""
        calls = [Call(f"op{i % 5}", i * 2, i * 2 + 2) for i in range(300) if i % 3 < 2]
        page = reports.open(trace_of_calls([*calls, Call("late", 9_000, 9_001)]), "timeline")
        width = page.evaluate("() => document.querySelector('.timeline-canvas').width")
        page.goto(f"{page.url.split('#')[0]}#timeline?from=0&to={width * 1000}")
        page.wait_for_function(
            "() => document.querySelector('.timeline-place')?.textContent.length > 0"
        )
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        painted = page.evaluate(
            """() => {
              const canvas = document.querySelector(".timeline-canvas");
              const words = canvas.getContext("2d").getImageData(0, 0, 600, 40).data.buffer;
              const colours = new Uint32Array(words);
              const line = colours.slice(600 * (22 + 14), 600 * (22 + 15));
              const ground = colours[600 * (22 + 17)];  // between two lines
              return Array.from(line, (colour) => colour !== ground);
            }"""
        )
        expected = [(x // 2) % 3 < 2 for x in range(600)]
        assert painted == expected

    @pytest.mark.slow
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_a_real_trace(self, reports: Reports, theme: str) -> None:
        trace = read_trace(sample_path("made_rocm"))
        page = reports.open(trace, "timeline?q=addmm", theme=theme)
        assert " of " in page.inner_text(".timeline-tools output")
        reports.shot(page, f"timeline-{theme}")
        page.keyboard.press("t")
        page.keyboard.press("m")
        page.keyboard.press("0")
        assert "Interval" in details(page)
