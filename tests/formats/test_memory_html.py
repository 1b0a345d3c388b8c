"""The memory timeline's page, in a real browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from made_memory import Event, Said, trace_with_memory
from made_trace import Call
from sample_traces import HOSTILE
from stepscope.formats.memory_timeline import export_memory_timeline
from stepscope.trace.model import MemoryOwner, SliceFlags

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def data_in(html: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


class TestFile:
    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_no_name_leaves_its_element(self, tmp_path: Path, name: str) -> None:
        html = page_of(tmp_path, name).read_text(encoding="utf-8")
        assert data_in(html)["peak"]["where"] == name
        assert html.count("</script>") == 2

    def test_a_name_that_looks_like_a_place_is_none(self, tmp_path: Path) -> None:
        html = page_of(tmp_path, "{{js}} {{data}}").read_text(encoding="utf-8")
        assert data_in(html)["peak"]["where"] == "{{js}} {{data}}"

    def test_it_points_nowhere(self, tmp_path: Path) -> None:
        html = page_of(tmp_path).read_text(encoding="utf-8")
        assert not re.search(r"https?://|\bsrc=|\bhref=|@import|url\(", html)


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Any]:
    """Open pages 1,200 pixels wide; nothing may go wrong in them, nor leave them."""
    troubles: list[str] = []
    pages = []

    def opened(path: Path, **options: Any) -> Any:
        page = chromium.new_page(viewport={"width": 1200, "height": 700}, **options)
        pages.append(page)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: None if r.url.startswith("file:") else troubles.append(r.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for page in pages:
        page.close()
    assert not troubles


def text(page: Any, selector: str) -> str:
    return str(page.locator(selector).text_content())


def levels(page: Any) -> dict[str, str]:
    names = ("parameter", "activation", "gradient", "temporary")
    return {name: text(page, f"#bytes-{name}") for name in names} | {"total": text(page, "#total")}


def point_at(
    page: Any, microseconds: float, span: tuple[float, float] = (0, 200)
) -> tuple[float, float]:
    """Move the pointer to a time, counted from the first event, when the view shows a span."""
    box = page.locator("#canvas").bounding_box()
    left, right = 76, 12  # the chart's margins
    part = (microseconds - span[0]) / (span[1] - span[0])
    x = box["x"] + left + part * (box["width"] - left - right)
    y = box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    return x, y


def colours(page: Any) -> set[tuple[int, ...]]:
    """Return the colours that cover much of the canvas."""
    script = """() => {
      const canvas = document.getElementById("canvas");
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
    def test_it_tells_the_peak_first(self, tmp_path: Path, open_page: Any) -> None:
        page = open_page(page_of(tmp_path))
        assert page.title() == "Memory of cpu"
        assert text(page, "#peak") == "peak 1 MiB at 100.000 µs in MmBackward0"
        assert text(page, "#when") == "at the peak"
        assert levels(page) == {
            "parameter": "256 KiB",
            "activation": "512 KiB",
            "gradient": "256 KiB",
            "temporary": "0 B",
            "total": "1 MiB",
        }

    def test_the_pointer_reads_any_time(self, tmp_path: Path, open_page: Any) -> None:
        page = open_page(page_of(tmp_path))
        point_at(page, 50)
        assert text(page, "#tip").endswith(": 768 KiB")
        assert text(page, "#when").startswith("at 50.")
        assert levels(page)["gradient"] == "0 B"
        point_at(page, 190)
        assert levels(page) | {"total": "512 KiB", "activation": "0 B"} == levels(page)
        page.mouse.move(1, 1)
        assert text(page, "#when") == "at the peak"
        assert page.locator("#tip").is_hidden()

    def test_areas_have_their_categories_colours(self, tmp_path: Path, open_page: Any) -> None:
        drawn = colours(open_page(page_of(tmp_path), color_scheme="light"))
        parameter, activation, gradient = (47, 125, 79, 255), (221, 90, 75, 255), (47, 95, 196, 255)
        assert {parameter, activation, gradient} <= drawn

    def test_a_dark_desktop_gets_dark_colours(self, tmp_path: Path, open_page: Any) -> None:
        page = open_page(page_of(tmp_path), color_scheme="dark")
        dark = colours(page)
        assert (79, 174, 120, 255) in dark
        page.emulate_media(color_scheme="light")
        page.evaluate("() => new Promise(requestAnimationFrame)")  # it is told before a frame
        assert not (colours(page) - {(0, 0, 0, 0)}) & dark

    def test_drag_wheel_buttons_and_keys_zoom(self, tmp_path: Path, open_page: Any) -> None:
        page = open_page(page_of(tmp_path))

        def shown_at_the_middle() -> str:
            point_at(page, 100)
            return text(page, "#when")

        point_at(page, 120)
        page.mouse.down()
        point_at(page, 140)
        page.mouse.up()
        assert shown_at_the_middle().startswith("at 130.")  # the middle of 120 to 140
        page.keyboard.press("0")
        assert shown_at_the_middle().startswith("at 100.")

        point_at(page, 0)
        page.mouse.wheel(0, -400)  # the left edge stays where it is
        assert 34 < float(shown_at_the_middle().split()[1]) < 38
        page.keyboard.press("ArrowRight")
        assert 48 < float(shown_at_the_middle().split()[1]) < 54
        page.locator("#canvas").dblclick()
        assert shown_at_the_middle().startswith("at 100.")

        page.locator("#zoom-in").click()
        point_at(page, 0)
        assert text(page, "#when").startswith("at 50.")
        page.locator("#zoom-out").click()
        point_at(page, 0)
        assert text(page, "#when").startswith("at 0.")

    def test_a_category_can_be_left_out(self, tmp_path: Path, open_page: Any) -> None:
        page = open_page(page_of(tmp_path))
        page.get_by_label("parameter").uncheck()
        assert text(page, "#total") == "768 KiB"
        page.get_by_label("activation").uncheck()
        assert text(page, "#total") == "256 KiB"

    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_hostile_names_are_text(self, tmp_path: Path, open_page: Any, name: str) -> None:
        page = open_page(page_of(tmp_path, name))
        assert text(page, "#peak").endswith(f" in {name}")

    def test_a_level_of_one_nanosecond_is_not_lost(self, tmp_path: Path, open_page: Any) -> None:
        events = [Event(0, KIB, 1), Event(500_000, 9 * KIB, 2), Event(500_000.001, -9 * KIB, 2)]
        path = tmp_path / "memory.html"
        trace = trace_with_memory([Call("aten::mm", 0, 1_000_000)], events, end_ns=10**9)
        export_memory_timeline(trace, path)
        page = open_page(path)
        point_at(page, 500_000, (0, 1_000_000))
        seen = {text(page, "#total")}
        for pixel in (-1, 1):
            point_at(page, 500_000 + pixel * 1_000, (0, 1_000_000))
            seen.add(text(page, "#total"))
        assert "10 KiB" in seen
