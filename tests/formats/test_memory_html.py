"""The memory timeline's page, in a real browser."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from made_memory import Event, Said, trace_with_memory
from made_trace import Call
from report_data import PageData
from sample_traces import HOSTILE
from stepscope.formats.memory_timeline import export_memory_timeline
from stepscope.trace.model import MemoryOwner, SliceFlags

if TYPE_CHECKING:
    from pathlib import Path

KIB = 1024

# 256 KiB of parameters throughout; activations of 512 KiB from 20 to 150 µs; a gradient of 256 KiB
# from 120 µs on, in a backward function with the given name.
SAID = [
    Said(10, 0x9000, MemoryOwner.PARAMETER, 256 * KIB),
    Said(130, 0x3000, MemoryOwner.GRADIENT, 256 * KIB),
]
EVENTS = [
    Event(20, 512 * KIB, 0x2000),
    Event(120, 256 * KIB, 0x3000),
    Event(150, -512 * KIB, 0x2000),
]


def page_of(folder: Path, name: str = "MmBackward0") -> Path:
    calls = [Call("aten::mm", 0, 100), Call(name, 110, 200, flags=SliceFlags.BACKWARD)]
    path = folder / "memory.html"
    export_memory_timeline(trace_with_memory(calls, EVENTS, SAID, end_ns=220_000), path)
    return path


def strings_in(html: str) -> list[str]:
    data = PageData.in_page(html)
    blob = data.column("strings.bytes").tobytes()
    ends = data.column("strings.offsets").astype(int).tolist()
    return [blob[a:b].decode() for a, b in pairwise(ends)]


class TestFile:
    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_no_name_leaves_its_element(self, tmp_path: Path, name: str) -> None:
        html = page_of(tmp_path, name).read_text(encoding="utf-8")
        assert name in strings_in(html)
        assert html.count("</script>") == 3

    def test_a_name_that_looks_like_a_place_is_none(self, tmp_path: Path) -> None:
        html = page_of(tmp_path, "{{start}} {{data}}").read_text(encoding="utf-8")
        assert "{{start}} {{data}}" in strings_in(html)

    def test_it_points_nowhere(self, tmp_path: Path) -> None:
        html = page_of(tmp_path).read_text(encoding="utf-8")
        assert not re.search(r"https?://|\bsrc=|@import|url\(", html)
        assert re.findall(r'\bhref="(.*?)"', html) == ["data:,"]  # no icon
        imports = re.search(r'<script type="importmap">(.*?)</script>', html)
        assert imports
        urls = json.loads(imports[1])["imports"].values()
        assert {url.partition(",")[0] for url in urls} == {"data:text/javascript;base64"}

    def test_it_has_one_device_only(self, tmp_path: Path) -> None:
        events = [*EVENTS, Event(30, 64 * KIB, 0x7000, device="cuda:0")]
        trace = trace_with_memory([Call("aten::mm", 0, 100)], events, SAID, end_ns=220_000)
        for device in ("cpu", "cuda:0"):
            path = tmp_path / "memory.html"
            export_memory_timeline(trace, path, device)
            data = PageData.in_page(path.read_text(encoding="utf-8"))
            assert [item["name"] for item in data.values["memory.devices"]] == [device]


def text(page: Any, selector: str) -> str:
    return str(page.locator(selector).text_content())


def levels(page: Any) -> dict[str, str]:
    """Return the bytes of each area at the moment of the cursor."""
    script = "all => all.map(label => label.innerText.trim().split('\\n').map(t => t.trim()))"
    element = page.locator(".memory-legend label").evaluate_all(script)
    return dict(" ".join(words).split(" ", 1) for words in element)


def point_at(
    page: Any, microseconds: float, span: tuple[float, float] = (0, 220)
) -> tuple[float, float]:
    """Move the pointer to a time when the chart shows a span."""
    box = page.locator(".memory-chart").bounding_box()
    rest, right = 76, 12  # the chart's margins
    part = (microseconds - span[0]) / (span[1] - span[0])
    x = box["x"] + rest + part * (box["width"] - rest - right)
    y = box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    return x, y


def colours(page: Any) -> set[tuple[int, ...]]:
    """Return the colours that cover much of the canvas."""
    script = """() => {
      const canvas = document.querySelector(".memory-chart");
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      const counts = new Map();
      for (let i = 0; i < data.length; i += 4) {
        const key = `${data[i]},${data[i + 1]},${data[i + 2]},${data[i + 3]}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      return [...counts].filter(([, count]) => count > 2000).map(([key]) => key);
    }"""
    return {tuple(map(int, key.split(","))) for key in page.evaluate(script)}


class TestPage:
    def test_it_tells_the_peak_first(self, tmp_path: Path, reports: Any) -> None:
        page = reports.open(page_of(tmp_path))
        assert page.title() == "Memory of cpu"
        assert text(page, ".memory-peak") == "Peak 1.00 MiB at 120 µs in MmBackward0"
        assert "At 120 µs: 1.00 MiB in 3 allocations" in text(page, ".memory-moment")
        assert levels(page) == {
            "parameter": "256 KiB",
            "activation": "512 KiB",
            "gradient": "256 KiB",
        }
        assert page.get_by_role("link", name="Timeline").count() == 0

    def test_the_pointer_reads_any_time(self, tmp_path: Path, reports: Any) -> None:
        page = reports.open(page_of(tmp_path))
        point_at(page, 50)
        assert re.fullmatch(r"(49|50)\.\d µs: 768 KiB", text(page, ".memory-tip"))
        page.mouse.click(*point_at(page, 50))
        assert re.match(r"At (49|50)\.\d µs: 768 KiB", text(page, ".memory-moment"))
        assert levels(page)["gradient"] == "0 B"
        page.mouse.click(*point_at(page, 190))
        assert levels(page) | {"parameter": "256 KiB", "activation": "0 B"} == levels(page)
        assert ": 512 KiB in 2 allocations" in text(page, ".memory-moment")
        page.get_by_role("button", name="Go to peak").click()
        assert "At 120 µs: 1.00 MiB" in text(page, ".memory-moment")
        page.mouse.move(1, 1)
        assert text(page, ".memory-tip") == ""

    def test_areas_have_their_categories_colours(self, tmp_path: Path, reports: Any) -> None:
        drawn = colours(reports.open(page_of(tmp_path)))
        parameter, activation, gradient = (47, 125, 79, 255), (221, 90, 75, 255), (47, 95, 196, 255)
        assert {parameter, activation, gradient} <= drawn

    def test_a_dark_desktop_gets_dark_colours(self, tmp_path: Path, reports: Any) -> None:
        page = reports.open(page_of(tmp_path), theme="dark")
        dark = colours(page)
        assert (79, 174, 120, 255) in dark
        page.emulate_media(color_scheme="light")
        # It is told before a frame, and drawn in the next.
        page.evaluate(
            "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
        )
        assert not (colours(page) - {(0, 0, 0, 0)}) & dark

    def test_drag_wheel_buttons_and_keys_zoom(self, tmp_path: Path, reports: Any) -> None:
        page = reports.open(page_of(tmp_path))

        def shown_at_the_middle() -> float:
            point_at(page, 110)
            return float(text(page, ".memory-tip").split()[0])

        page.keyboard.down("Shift")
        point_at(page, 120)
        page.mouse.down()
        point_at(page, 140)
        page.mouse.up()
        page.keyboard.up("Shift")
        assert 129 < shown_at_the_middle() < 131  # the middle of 120 to 140
        page.keyboard.press("f")
        assert 109 < shown_at_the_middle() < 111

        point_at(page, 0)
        page.mouse.wheel(0, -400)  # the left edge stays where it is
        page.wait_for_function("() => location.hash.includes('to=')")
        zoomed = shown_at_the_middle()
        assert 60 < zoomed < 75
        page.keyboard.press("d")
        assert shown_at_the_middle() > zoomed + 10
        page.locator(".memory-chart").dblclick()
        assert 109 < shown_at_the_middle() < 111

        page.get_by_role("button", name="Zoom in").click()
        point_at(page, 0)
        assert float(text(page, ".memory-tip").split()[0]) > 40
        page.get_by_role("button", name="Zoom out").click()
        point_at(page, 0)
        assert float(text(page, ".memory-tip").split()[0]) < 1

    def test_a_category_can_be_left_out(self, tmp_path: Path, reports: Any) -> None:
        page = reports.open(page_of(tmp_path))
        page.get_by_label("parameter").uncheck()
        assert ": 768 KiB in 2" in text(page, ".memory-moment")
        page.get_by_label("activation").uncheck()
        assert ": 256 KiB in 1" in text(page, ".memory-moment")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_hostile_names_are_text(self, tmp_path: Path, reports: Any, name: str) -> None:
        page = reports.open(page_of(tmp_path, name))
        assert text(page, ".memory-peak").endswith(f" in {name}")

    def test_a_level_of_one_nanosecond_is_not_lost(self, tmp_path: Path, reports: Any) -> None:
        events = [Event(0, KIB, 1), Event(500_000, 9 * KIB, 2), Event(500_000.001, -9 * KIB, 2)]
        path = tmp_path / "memory.html"
        trace = trace_with_memory([Call("aten::mm", 0, 1_000_000)], events, end_ns=10**9)
        export_memory_timeline(trace, path)
        page = reports.open(path)
        seen = set()
        for pixel in (-1, 0, 1):
            point_at(page, 500_000 + pixel * 1_000, (0, 1_000_000))
            seen.add(text(page, ".memory-tip").rpartition(": ")[2])
        assert "10.0 KiB" in seen
