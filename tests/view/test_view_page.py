"""The pages of `stepscope view` in a real browser. Nothing may go wrong in them, nor leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from made_trace import trace_of_calls
from sample_traces import HOSTILE, PADDLE_SAMPLES, SAMPLES, SAMPLES_FOLDER
from viewing import Viewed, saved, small_trace, viewing, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAINTED = "() => performance.getEntriesByName('painted').length > 0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    saved(tmp_path / "old.stepscope", small_trace("aten::big", "aten::add"), age_s=300)
    saved(tmp_path / "runs" / "new.json", age_s=200)
    (tmp_path / "broken.json").write_text("")
    written(tmp_path / "broken.json", age_s=100)
    return tmp_path


@pytest.fixture
def viewed(root: Path) -> Iterator[Viewed]:
    with viewing(root) as viewed:
        yield viewed


class Window:
    """Opens pages of a server, and keeps what went wrong in them."""

    def __init__(self, chromium: Any, viewed: Viewed) -> None:
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self._chromium = chromium
        self._viewed = viewed
        self._contexts: list[Any] = []

    def open(self, path: str = "", theme: str = "light") -> Any:
        context = self._chromium.new_context(
            viewport={"width": 1280, "height": 800}, color_scheme=theme
        )
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", lambda message: self.troubles.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: (self.troubles.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: self._request(request.url))
        page.goto(self._viewed.server.url + path)
        return page

    def _request(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self._viewed.server.url, "data:", "blob:")):
            self.troubles.append(f"request: {url}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def window(chromium: Any, viewed: Viewed) -> Iterator[Window]:
    viewed.traces()  # the figures are known when the page asks
    window = Window(chromium, viewed)
    yield window
    window.close()
    assert not window.troubles


def lines(page: Any) -> list[list[str]]:
    page.wait_for_selector("tbody tr")
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    cells: list[list[str]] = page.locator("tbody tr").evaluate_all(script)
    return cells


def names(page: Any) -> list[str]:
    return [line[0] for line in lines(page)]


def wait_for(page: Any, count: int) -> None:
    page.wait_for_function("n => document.querySelectorAll('tbody tr').length === n", arg=count)


def test_the_list(window: Window, viewed: Viewed, root: Path) -> None:
    page = window.open()
    broken, new, old = lines(page)
    assert page.locator("#folder").text_content() == str(root)
    assert page.locator("#count").text_content() == "3 traces"
    assert broken[0] == "broken.json"
    assert broken[-1].startswith("'broken.json' is empty")
    assert new[0] == "runs/new.json"
    assert new[3:9] == ["6", "20.0 ms", "2", "10.0 ms", "", ""]
    assert new[9] == "aten::mm (30.0%)"
    assert (old[0], old[8], old[9]) == ("old.stepscope", "4.00 KiB cpu", "aten::big (30.0%)")


def test_heads_sort_and_the_hash_remembers(window: Window) -> None:
    page = window.open()
    assert names(page) == ["broken.json", "runs/new.json", "old.stepscope"]
    page.get_by_role("button", name="Trace").click()
    assert names(page) == ["broken.json", "old.stepscope", "runs/new.json"]
    page.get_by_role("button", name="Trace").click()
    assert names(page) == ["runs/new.json", "old.stepscope", "broken.json"]
    assert page.locator("th[aria-sort=descending]").text_content() == "Trace ↓"
    hash_ = page.evaluate("location.hash")
    assert names(window.open(hash_)) == ["runs/new.json", "old.stepscope", "broken.json"]


def test_the_filter(window: Window) -> None:
    page = window.open()
    lines(page)
    page.keyboard.press("/")
    page.keyboard.type("big")
    wait_for(page, 1)
    assert names(page) == ["old.stepscope"]
    assert page.locator("#count").text_content() == "1 of 3 traces"
    assert names(window.open(page.evaluate("location.hash"))) == ["old.stepscope"]


def test_keys_lead_to_a_report(window: Window) -> None:
    page = window.open()
    lines(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "runs/new.json"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function(PAINTED)
    assert "new.json" in page.title()
    assert page.get_by_role("link", name="Overview").is_visible()
    page.go_back()
    assert len(lines(page)) == 3


def test_every_control_is_reached_and_labelled(window: Window) -> None:
    page = window.open()
    lines(page)
    reached = []
    for _ in range(17):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(document.activeElement.getAttribute('aria-label')"
                " ?? document.activeElement.textContent)"
            )
        )
    assert reached[0].startswith("Filter traces")
    assert "Theme" in reached
    assert {"Trace", "Written ↓", "Top operator"} <= set(reached)
    traces = ["broken.json", "runs/new.json", "Perfetto", "old.stepscope", "Perfetto"]
    assert reached[-5:] == traces


@pytest.mark.slow
def test_new_traces_appear_and_the_focus_stays(window: Window, root: Path) -> None:
    page = window.open()
    lines(page)
    page.get_by_role("link", name="old.stepscope").focus()
    saved(root / "newest.json", age_s=50)
    wait_for(page, 4)
    assert names(page)[0] == "newest.json"
    page.get_by_text("10.0 ms").nth(2).wait_for()  # its figures
    assert page.evaluate("document.activeElement.textContent") == "old.stepscope"
    (root / "newest.json").unlink()
    wait_for(page, 3)
    assert page.evaluate("document.activeElement.textContent") == "old.stepscope"


def test_a_broken_trace_has_no_report_but_a_reason(window: Window) -> None:
    page = window.open()
    page.get_by_role("link", name="broken.json").click()
    page.get_by_text("The report cannot be built: 'broken.json' is empty").wait_for()
    page.get_by_role("link", name="All traces").click()
    assert len(lines(page)) == 3


def test_the_waiting_page_shows_progress_and_keeps_the_place(
    window: Window, viewed: Viewed, root: Path
) -> None:
    import threading

    release = threading.Event()
    viewed.server.library._worker.submit(lambda: assert_set(release), urgent=True)
    page = window.open("report/old.stepscope#overview?x=1")
    page.get_by_text("waiting …").wait_for()
    assert page.locator("#name").text_content() == "old.stepscope"
    release.set()
    page.wait_for_function(PAINTED)
    assert page.evaluate("location.hash").startswith("#overview")


def assert_set(event: Any) -> None:
    assert event.wait(60)


def test_an_empty_folder_says_what_to_do(chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with viewing(tmp_path / "nothing") as viewed:
        window = Window(chromium, viewed)
        page = window.open()
        page.get_by_text("No traces yet.").wait_for()
        assert page.locator("table").is_hidden()
        window.close()
    assert not window.troubles


def test_a_server_that_ended_is_told(chromium: Any, root: Path) -> None:
    with viewing(root) as viewed:
        window = Window(chromium, viewed)
        page = window.open()
        lines(page)
    page.get_by_text("Cannot reach the server").wait_for()
    assert len(lines(page)) == 3
    window.close()
    assert all("ERR_CONNECTION_REFUSED" in trouble for trouble in window.troubles)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
def test_hostile_operators_are_text(window: Window, root: Path, name: str) -> None:
    saved(root / "b.stepscope", small_trace(name), age_s=50)
    page = window.open()
    page.get_by_role("link", name="b.stepscope").wait_for()
    page.wait_for_function("() => document.querySelector('tbody tr').cells[3].textContent === '4'")
    result = lines(page)[0][9]
    assert result.startswith(name[:150])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["<img src=x onerror=alert(1)>.json", "a?b#c%2f&d=.json", "line\nfeed.json", "🙂 \u2028.json"],
)
def test_hostile_file_names_are_text_and_open(window: Window, root: Path, name: str) -> None:
    saved(root / "sub" / name, age_s=50)
    page = window.open()
    wait_for(page, 4)
    assert names(page)[0] == f"sub/{name}"
    page.locator("tbody a").first.click()
    page.wait_for_function(PAINTED)


@pytest.mark.slow
def test_light_and_dark(window: Window) -> None:
    def back(page: Any) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page = window.open(theme="dark")
    lines(page)
    dark = back(page)
    page.keyboard.press("t")
    light = back(page)
    assert light != dark
    assert back(window.open(theme="light")) == light
    page.get_by_role("link", name="old.stepscope").click()
    page.wait_for_function(PAINTED)
    assert back(page) == light  # the reports take the same choice


def test_a_trace_of_nothing_is_listed(window: Window, root: Path) -> None:
    saved(root / "nothing.stepscope", trace_of_calls([]), age_s=50)
    page = window.open()
    wait_for(page, 4)
    page.wait_for_function("() => document.querySelector('tbody tr').cells[3].textContent === '0'")


@pytest.mark.slow
def test_real_traces(chromium: Any) -> None:
    paths = [*SAMPLES, *PADDLE_SAMPLES.glob("*.json.gz"), *PADDLE_SAMPLES.glob("*.pb")]
    with viewing(SAMPLES_FOLDER) as viewed:
        expected = {trace["name"]: trace for trace in viewed.traces()}
        assert set(expected) == {path.relative_to(SAMPLES_FOLDER).as_posix() for path in paths}
        assert not [trace["error"] for trace in expected.values() if trace["error"]]
        window = Window(chromium, viewed)
        page = window.open("#sort=events&order=down")
        assert len(lines(page)) == len(expected)
        window.close()
    assert not window.troubles
