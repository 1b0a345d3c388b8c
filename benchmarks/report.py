"""The report of a million events: how long it takes to write, to open and to pan, and its size.

The trace is the sample of ``read_trace`` some times over. The page is opened from disk in a
headless Chromium with the network off; where there is none, only the writing is measured.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from common import timed_s
from rows import Row, limit_row, megabytes, note_row
from sample import repeat, sample

import stepscope

COPIES = 8  # of 123,379 events
ROUNDS = 5
BUILD_BAR_S = 3.0
SIZE_BAR_BYTES = 15e6
DECODE_BAR_S = 1.0
PAINT_BAR_S = 2.0
FRAME_BAR_S = 0.033
PANS = {"frames": 60, "pixels": 25}
TIMEOUT_MS = 120_000
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)

# From the navigation's start; "decoded" and "painted" are marks that main.js sets.
MARK = "name => performance.getEntriesByName(name)[0].startTime"
PAN = Path(__file__).with_name("pan.js").read_text()


def rows(quick: bool = False) -> list[Row]:
    """Return the lines of the table."""
    copies, rounds = (1, 2) if quick else (COPIES, ROUNDS)
    with tempfile.TemporaryDirectory() as name:
        page, large = Path(name) / "report.html", Path(name) / "large.json.gz"
        source, called = sample(Path(name))
        repeat(source, large, copies)
        trace = stepscope.read_trace(large)
        stepscope.export_trace(trace, page)  # imports are not what is measured
        written = [timed_s(lambda: stepscope.export_trace(trace, page)) for _ in range(rounds)]
        size = float(page.stat().st_size)
        what = f"report of {len(trace):,} events, {called} × {copies}"
        return [
            limit_row(f"{what}: write", written, BUILD_BAR_S),
            limit_row("size", [size], SIZE_BAR_BYTES, megabytes),
            *_in_browser(page, rounds),
        ]


def _in_browser(page: Path, rounds: int) -> list[Row]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return [note_row("open the report", "no Playwright: pip install --group test")]
    if CHROMIUM is None:
        return [note_row("open the report", "no Chromium: apt-get install chromium")]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = [_opened(browser, page) for _ in range(rounds)]
        frames = [_panned(browser, page) for _ in range(rounds)]
        browser.close()
    decoded, painted = ([ms / 1e3 for ms in column] for column in zip(*opened, strict=True))
    return [
        limit_row("decode", decoded, DECODE_BAR_S),
        limit_row("first paint, from opening the file", painted, PAINT_BAR_S),
        limit_row("a frame of panning, median", [ms / 1e3 for ms in frames], FRAME_BAR_S),
    ]


def _opened(browser: Any, path: Path) -> tuple[float, float]:
    """Return the ms that decoding took, and those from opening the file to the first paint."""
    page = _page(browser, path, "")
    decode = page.evaluate(MARK, "decoded") - page.evaluate(MARK, "started")
    paint = page.evaluate(MARK, "painted")
    page.close()
    return decode, paint


def _panned(browser: Any, path: Path) -> float:
    """Return the median ms of a frame, over a tenth of the timeline."""
    page = _page(browser, path, "timeline")
    for _ in range(4):
        page.keyboard.press("w")
    frames: list[float] = page.evaluate(PAN, PANS)
    page.close()
    return statistics.median(frames)


def _page(browser: Any, path: Path, at: str) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, offline=True)
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(f"{path.as_uri()}#{at}")
    page.wait_for_function("() => performance.getEntriesByName('painted').length > 0")
    return page
