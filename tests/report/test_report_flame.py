"""The report's flame graph, in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from report_page import address

if TYPE_CHECKING:
    from stepscope.trace.model import Trace


def test_a_flame_graph_zooms_and_goes_back(made: Trace, reports: Any) -> None:
    page = reports.open(made, "flame?view=calls&metric=cpu_ns")
    details, crumbs = page.locator(".flame-details"), page.locator(".crumbs button")
    assert "100 µs in all: time of the program in the steady steps" in details.text_content()
    page.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "Net" in details.text_content()
    page.keyboard.press("Enter")
    assert crumbs.all_text_contents() == ["all", "ProfilerStep*", "Net"]
    assert "at=" in address(page)
    page.reload()
    assert crumbs.all_text_contents() == ["all", "ProfilerStep*", "Net"]
    page.locator("canvas").focus()
    page.keyboard.press("Escape")
    assert crumbs.all_text_contents() == ["all", "ProfilerStep*"]
    crumbs.first.click()
    assert crumbs.all_text_contents() == ["all"]


def test_a_click_zooms_to_the_box_under_the_pointer(made: Trace, reports: Any) -> None:
    page = reports.open(made, "flame?view=calls&metric=cpu_ns")
    canvas = page.locator("canvas")
    width = canvas.bounding_box()["width"]
    # ProfilerStep takes all of the second row; in the third, Net has 55 of 100 µs, then relu 10.
    canvas.click(position={"x": width * 0.6, "y": 50})
    assert page.locator(".crumbs button").all_text_contents()[-1] == "aten::relu"
    page.get_by_role("button", name="Flames up").click()
    assert "up=1" in address(page)


def test_a_search_tells_the_share_of_what_it_found(made: Trace, reports: Any) -> None:
    page = reports.open(made, "flame?view=calls&metric=cpu_ns")
    page.get_by_role("searchbox").fill("aten")
    assert "2 found: 34.0 µs, 34.0%" in page.locator(".choices").text_content()
    page.get_by_role("searchbox").fill("<no such>")
    assert "nothing found" in page.locator(".choices").text_content()


def test_metrics_and_views_of_a_flame_graph(made: Trace, reports: Any) -> None:
    page = reports.open(made, "flame")
    assert "41.0 µs in all: device time of" in page.locator(".flame-details").text_content()
    page.get_by_label("Width").select_option("device_bytes")
    assert (
        "4.00 KiB in all: allocated device memory" in page.locator(".flame-details").text_content()
    )
    page.get_by_label("By").select_option("calls")
    assert "view=calls" in address(page)


def test_the_flame_graph_says_beside_the_mouse_what_is_under_it(made: Trace, reports: Any) -> None:
    page = reports.open(made, "flame?view=calls&metric=cpu_ns")
    tip = page.locator(".flame-tip")
    assert not tip.is_visible()
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 50)
    assert "aten::relu" in tip.text_content()
    place = tip.bounding_box()
    assert abs(place["y"] - box["y"] - 50) < 40
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + 50)
    assert not tip.is_visible()
