"""Reports in a real browser, from disk and with the network off. Nothing may go wrong in them.

A test asks for the fixture ``reports`` and opens what it wants to look at::

    def test_it(reports):
        page = reports.open(trace, "timeline?from=0&to=1000")
        assert page.get_by_role("heading").first.text_content() == "Timeline"

Afterwards the fixture fails on any request, message on the console, error or dialog of the pages.
With ``STEPSCOPE_SCREENSHOTS=folder`` the pictures of ``reports.shot`` are kept.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.report.build import export_html
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
PAINTED = "() => performance.getEntriesByName('painted').length > 0"


def address(page: Any) -> str:
    """Where the page is, by its own word: ``page.url`` is told of a change some time after it."""
    return str(page.evaluate("location.href"))


class Reports:
    """Opens reports, and keeps what went wrong in them."""

    def __init__(self, browser: Any, folder: Path) -> None:
        """Open pages in ``browser``, with files in ``folder``."""
        self.troubles: list[str] = []
        self._browser = browser
        self._folder = folder
        self._contexts: list[Any] = []

    def write(self, trace: Trace, name: str = "report.html", **options: Any) -> Path:
        """Write the report of a trace into the test's folder."""
        path = self._folder / name
        export_html(trace, path, **options)
        return path

    def open(
        self,
        report: Trace | Path,
        at: str = "",
        *,
        theme: str = "light",
        size: tuple[int, int] = (1280, 800),
        wait: bool = True,
    ) -> Any:
        """Open a report, or that of a trace, at a place such as ``operators?search=mm``.

        Returns Playwright's page, after its first frame unless ``wait`` is false.
        """
        path = self.write(report) if isinstance(report, Trace) else report
        width, height = size
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, offline=True
        )
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", lambda message: self.troubles.append(f"console: {message.text}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.goto(path.absolute().as_uri() + (f"#{at}" if at else ""))
        if wait:
            page.wait_for_function(PAINTED)
        return page

    def shot(self, page: Any, name: str) -> Path:
        """Take a picture of what the window shows."""
        folder = Path(os.environ.get("STEPSCOPE_SCREENSHOTS") or self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        return path

    def expect(self, part: str) -> None:
        """Take back one trouble that a test has provoked; fail when there is none such."""
        first_match = next((trouble for trouble in self.troubles if part in trouble), None)
        assert first_match is not None, f"no {part!r} in {self.troubles}"
        self.troubles.remove(first_match)

    def close(self) -> None:
        """Close all pages."""
        for context in self._contexts:
            context.close()

    def _dialog(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.troubles.append(f"request: {request.url}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the tests of a module; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("no Chromium found")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def reports(chromium: Any, tmp_path: Path) -> Iterator[Reports]:
    """Open reports; when the test is over, nothing may have gone wrong in them."""
    opened = Reports(chromium, tmp_path)
    yield opened
    opened.close()
    assert not opened.troubles
