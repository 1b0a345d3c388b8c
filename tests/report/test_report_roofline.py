"""The report's roofline: its table against the analysis, and the page in a browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis.device.roofline import roofline

if TYPE_CHECKING:
    from pathlib import Path

    from report_page import Reports
    from stepscope.trace.model import Trace

H200 = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 141 * 10**9}


@pytest.fixture(autouse=True)
def no_measured_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def made(*devices: dict[str, Any]) -> Trace:
    """Return a product at 80 % of its roof and a sum at a third of it, in a step of 10 ms."""

    def shapes(*dims: list[int]) -> str:
        kinds = json.dumps(["c10::BFloat16"] * len(dims))
        return f'"Input Dims": {json.dumps(dims)}, "Input type": {kinds}'

    calls = [
        Call("ProfilerStep#0", 0, 10_000, "user_annotation"),
        Call("aten::mm", 10, 18, rest=shapes([8192, 8192], [8192, 8192])),
        Call("cudaLaunchKernel", 11, 15, "cuda_runtime", correlation=1),
        Call("nvjet_tst_128x256", 16, 1_396, "kernel", 3, correlation=1),
        Call("aten::add", 20, 28, rest=shapes([2**28], [2**28])),
        Call("cudaLaunchKernel", 21, 25, "cuda_runtime", correlation=2),
        Call("elementwise", 1_400, 2_400, "kernel", 3, correlation=2),
    ]
    return trace_of_calls(calls, devices=devices, end_ns=10_000_000)


def rows(page: Any) -> list[list[str]]:
    script = "all => all.map(tr => [...tr.children].map(cell => cell.textContent))"
    return list(page.locator(".table tbody tr").evaluate_all(script))


def test_the_page_and_its_table(reports: Reports) -> None:
    trace = made(H200)
    page = reports.open(trace, "roofline")
    text = page.locator("#page").inner_text()
    saved = roofline(trace).saved_ns.sum()
    assert f"would save {saved / 1000:.0f} µs of 2.38 ms" in text
    assert "A roof is known for 100.0% of the compute time." in text
    assert "Peaks of NVIDIA H200: NVIDIA data sheet, dense." in text
    head = page.locator(".table thead th").all_inner_texts()
    cells = [
        dict(zip((item.rstrip(" ▾▼") for item in head), row, strict=True)) for row in rows(page)
    ]
    assert [item["Operator"] for item in cells] == ["aten::mm", "aten::add"]
    assert cells[0]["Shapes"] == "8192x8192, 8192x8192"
    assert (cells[0]["Limit"], cells[0]["Of roof"]) == ("compute", "80.5%")
    assert (cells[1]["Limit"], cells[1]["FLOP/B"]) == ("memory", "0.167")
    assert cells[1]["Bytes/s"] == "1.61 TB/s"

    # From the plot to the table: the first is the longest.
    page.locator(".roofline-plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".roofline-point").inner_text().startswith("aten::add (268435456, ")
    page.keyboard.press("Enter")
    assert [row[0] for row in rows(page)] == ["aten::add"]


def test_it_fits_narrow_windows_and_the_dark(reports: Reports) -> None:
    page = reports.open(made(H200), "roofline", size=(800, 1000), theme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.locator(".roofline-plot").bounding_box()
    assert box["width"] > 700


def test_a_device_that_nobody_knows_has_no_roof(reports: Reports) -> None:
    page = reports.open(made({"id": 0, "name": "Chip 1"}), "roofline")
    assert "The peaks of Chip 1 are not known" in page.locator("#page").inner_text()
    assert "Of roof" not in page.locator(".table thead").inner_text()
