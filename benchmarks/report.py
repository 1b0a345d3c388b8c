"""The report of a million events: how long it takes to write, to open and to pan, and its size.

The trace is the sample of ``read_trace`` eight times over. The page is opened from disk in a
headless Chromium with the network off; where there is none, only the writing is measured.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import read_trace
from common import Row, seconds, timed_ns

COPIES = 8  # of 123,379 events
ROUNDS = 3
BUILD_BAR_S = 3.0
SIZE_BAR_BYTES = 15e6
DECODE_BAR_S = 1.0
PAINT_BAR_S = 2.0
FRAME_BAR_S = 0.033
PANS = 60
TIMEOUT_MS = 120_000
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)

# From the navigation's start; "decoded" and "painted" are marks that main.js sets.
MARK = "name => performance.getEntriesByName(name)[0].startTime"
# The timeline measures its own frames, from one to the next, while it is moved in each of them.
PAN = """async (frames) => {
  await window.stepscopeTimeline.run(frames, 25);
  return window.stepscopeTimeline.frameTimes();
}"""


def rows() -> list[Row]:
    """Return the lines of the table."""
    if not read_trace.SOURCE.exists():
        return [Row("report of 1M events", "not measured", "no sample trace", "", "", None)]
    from stepscope import read_trace as read
    from stepscope.report.build import export_html

    with tempfile.TemporaryDirectory() as folder:
        page, copies = Path(folder) / "report.html", Path(folder) / "million.json.gz"
        read_trace.make_input(read_trace.SOURCE, copies, COPIES)
        trace = read(copies)
        build_s = min(timed_ns(lambda: export_html(trace, page)) for _ in range(ROUNDS)) / 1e9
        size = page.stat().st_size
        what = f"report of {len(trace):,} events"
        return [
            _row(f"{what}: write", build_s, BUILD_BAR_S),
            Row(
                f"{what}: size",
                f"{size / 1e6:.1f} MB",
                "",
                "",
                f"≤ {SIZE_BAR_BYTES / 1e6:.0f} MB",
                size <= SIZE_BAR_BYTES,
            ),
            *_in_browser(what, page),
        ]


def _in_browser(what: str, page: Path) -> list[Row]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return [Row(f"{what}: open", "not measured", "playwright is missing", "", "", None)]
    if CHROMIUM is None:
        return [Row(f"{what}: open", "not measured", "Chromium is missing", "", "", None)]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = [_opened(browser, page) for _ in range(ROUNDS)]
        frames = _panned(browser, page)
        browser.close()
    decode_ms, paint_ms = (min(column) for column in zip(*opened, strict=True))
    return [
        _row(f"{what}: decode", decode_ms / 1e3, DECODE_BAR_S),
        _row(f"{what}: first paint, from opening the file", paint_ms / 1e3, PAINT_BAR_S),
        _row(f"{what}: a frame of panning, median", statistics.median(frames) / 1e3, FRAME_BAR_S),
    ]


def _opened(browser: Any, path: Path, at: str = "") -> tuple[float, float]:
    """Return the ms that decoding took, and those from opening the file to the first paint."""
    page = _page(browser, path, at)
    decode = page.evaluate(MARK, "decoded") - page.evaluate(MARK, "started")
    paint = page.evaluate(MARK, "painted")
    page.close()
    return decode, paint


def _panned(browser: Any, path: Path) -> list[float]:
    """Return the ms of each frame, over a tenth of the timeline."""
    page = _page(browser, path, "timeline?bench=1")
    for _ in range(4):
        page.keyboard.press("w")
    frames: list[float] = page.evaluate(PAN, PANS)
    page.close()
    return frames


def _page(browser: Any, path: Path, at: str) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, offline=True)
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(f"{path.as_uri()}#{at}")
    page.wait_for_function("() => performance.getEntriesByName('painted').length > 0")
    return page


def _row(what: str, value_s: float, bar_s: float) -> Row:
    return Row(what, seconds(value_s), "", "", f"≤ {seconds(bar_s)}", value_s <= bar_s)
