"""The report's frame and its overview, in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from made_trace import Bytes, Call, trace_of_calls
from report_page import address
from sample_traces import HOSTILE
from stepscope.analysis.answer import answer
from stepscope.trace.model import Losses

if TYPE_CHECKING:
    from pathlib import Path

    from report_page import Reports
    from stepscope.trace.model import Trace

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def training(steps: int = 8, slow: int = 5, **info: Any) -> Trace:
    """Return steps of 100 µs, one of them of 300, with operators and some memory."""
    calls, memory, at = [], [], 0
    for step in range(steps):
        end = at + (300 if step == slow else 100)
        calls.append(Call(f"ProfilerStep#{step}", at, end, category="user_annotation"))
        calls.append(Call("aten::mm", at + 10, at + 60))
        calls.append(Call("aten::relu", at + 70, at + 80))
        memory += [Bytes(at + 15, 4096), Bytes(at + 90, -4096)]
        at = end
    return trace_of_calls(calls, memory, **info)


def shown(page: Any) -> str:
    return str(page.locator("#page").inner_text())


def current(page: Any) -> str:
    return str(page.locator("nav a[aria-current=page]").inner_text())


class TestFrame:
    def test_the_window_is_named_after_the_page_and_the_report(self, reports: Reports) -> None:
        page = reports.open(reports.write(training(), title="run 7"))
        assert page.title() == "Overview - run 7"
        assert "run 7 · 24 events" in shown(page)

    def test_the_first_line_is_the_verdict(self, reports: Reports) -> None:
        trace = training()
        page = reports.open(trace)
        assert page.locator("#page h1").inner_text() == answer(trace).verdict
        assert shown(page).startswith(answer(trace).verdict)

    def test_digits_go_to_pages_and_back_goes_back(self, reports: Reports) -> None:
        page = reports.open(training())
        page.keyboard.press("2")
        page.wait_for_function("() => document.title.startsWith('Overview') === false")
        second = current(page)
        assert second != "Overview"
        assert page.evaluate("document.activeElement.id") == "page"
        page.go_back()
        page.wait_for_function("() => document.title.startsWith('Overview')")
        assert current(page) == "Overview"
        page.go_forward()
        page.wait_for_function("() => document.title.startsWith('Overview') === false")
        assert current(page) == second

    def test_every_page_is_one_link_and_one_tab_away(self, reports: Reports) -> None:
        page = reports.open(training())
        links = page.locator("nav a")
        for i in range(links.count()):
            links.nth(i).focus()
            page.keyboard.press("Enter")
            page.wait_for_function(
                "name => document.title.startsWith(name)", arg=links.nth(i).inner_text()
            )
            assert current(page) == links.nth(i).inner_text()
            assert shown(page).strip()

    def test_a_page_that_is_not_there_is_told_and_the_first_is_shown(
        self, reports: Reports
    ) -> None:
        page = reports.open(training(), "no such <b>page</b>?x=1")
        notice = page.locator(".notice").inner_text()
        assert notice.startswith("This report has no page “no such <b>page</b>”")
        assert current(page) == "Overview"
        page.keyboard.press("1")
        page.wait_for_function("() => document.querySelector('.notice').hidden")

    @pytest.mark.parametrize(
        ("page_id", "message"),
        [
            ("kernels", "No device did any work"),
            ("roofline", "stepscope run --shapes script.py"),
            ("memory", "stepscope run --memory script.py"),
            ("modules", "stepscope run --modules script.py"),
        ],
    )
    def test_a_page_the_trace_has_nothing_for_says_what_to_record(
        self, reports: Reports, page_id: str, message: str
    ) -> None:
        page = reports.open(trace_of_calls([Call("aten::mm", 0, 10)]), page_id)
        assert message in shown(page)
        assert current(page).lower() == page_id

    def test_the_question_mark_tells_the_keys(self, reports: Reports) -> None:
        page = reports.open(training())
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog")
        assert "light or dark" in dialog.inner_text()
        page.keyboard.press("2")  # keys are the dialog's now
        assert current(page) == "Overview"
        page.keyboard.press("Escape")
        assert dialog.count() == 0
        page.get_by_role("button", name="Keys").click()
        page.get_by_role("button", name="Close").click()
        assert page.get_by_role("dialog").count() == 0

    def test_a_slash_goes_to_the_search_and_keys_are_text_there(self, reports: Reports) -> None:
        page = reports.open(training(), "operators")
        page.keyboard.press("/")
        page.keyboard.type("2?t")
        assert current(page) == "Operators"
        assert page.locator("input[type=search]").first.input_value() == "2?t"

    def test_the_address_alone_brings_a_view_back(self, reports: Reports) -> None:
        path = reports.write(training())
        page = reports.open(path, "operators")
        page.keyboard.press("/")
        page.keyboard.type("relu")
        page.wait_for_function("() => location.hash.includes('relu')")
        again = reports.open(path, address(page).partition("#")[2])
        assert again.locator("input[type=search]").first.input_value() == "relu"


class TestNarrowWindows:
    def test_no_tab_is_cut(self, reports: Reports) -> None:
        page = reports.open(training(), size=(800, 900))
        links = page.locator("nav a")
        for i in range(links.count()):
            box = links.nth(i).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 800
        assert page.evaluate("document.documentElement.scrollWidth") <= 800

    @pytest.mark.parametrize("width", [800, 1000, 1400])
    def test_numbers_do_not_collide(self, reports: Reports, width: int) -> None:
        calls = [Call(f"a_long_name_of_an_operator_{i}", i, i + 1) for i in range(12)]
        calls += [Call(f"ProfilerStep#{i}", 12 * i, 12 * i + 12, "user_annotation") for i in (0, 1)]
        page = reports.open(trace_of_calls(calls, [Bytes(3, 4096)]), size=(width, 900))
        # A text that is wider than its cell would run into the next one; names end in dots.
        wide = "all => all.filter((td) => td.scrollWidth > td.clientWidth + 1).length"
        assert page.locator("table.plain td").count() > 10
        assert page.locator("table.plain td:not(.at)").evaluate_all(wide) == 0


class TestThemes:
    def back(self, page: Any) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def test_it_follows_the_system_until_somebody_chooses(self, reports: Reports) -> None:
        page = reports.open(training(), theme="dark")
        dark = self.back(page)
        page.emulate_media(color_scheme="light")
        light = self.back(page)
        assert light != dark
        page.keyboard.press("t")
        assert self.back(page) == dark
        page.emulate_media(color_scheme="dark")
        assert self.back(page) == dark
        page.get_by_role("button", name="Theme").click()
        assert self.back(page) == light
        page.reload()
        page.wait_for_selector("nav a")
        assert self.back(page) == light

    def test_it_prints_on_white_without_the_bar(self, reports: Reports) -> None:
        page = reports.open(training(), theme="dark")
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert self.back(page) == "rgb(255, 255, 255)"
        assert page.locator("#bar").is_hidden()
        page.emulate_media(media="screen")
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert self.back(page) != "rgb(255, 255, 255)"

    @pytest.mark.slow
    def test_nothing_dark_and_nothing_cut_is_printed(self, reports: Reports) -> None:
        long = Call(f"aten::{'very_' * 60}long", 10, 60, rest='"Input Dims": [[2, 3], [3, 4]]')
        step = Call("ProfilerStep#0", 0, 100, category="user_annotation")
        trace = trace_of_calls([step, long], [Bytes(15, 4096)])
        for place in ("operators", "flame", "memory", "timeline"):
            page = reports.open(trace, place, theme="dark")
            # Measured at once: a browser prints without another frame.
            begin = "window.dispatchEvent(new Event('beforeprint'))"
            canvases = "[...document.querySelectorAll('#page canvas')]"
            dark = page.evaluate(f"() => {{ {begin}; return ({DARK_SHARES})({canvases}); }}")
            assert all(share < 0.5 for share in dark), (place, dark)
            cut = "all => all.filter((each) => each.scrollWidth > each.clientWidth + 1).length"
            assert page.locator(".table-scroll").evaluate_all(cut) == 0, place

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_texts_stand_out_from_what_is_behind_them(self, reports: Reports, theme: str) -> None:
        page = reports.open(training(losses=Losses(5, "newest", 1000)), theme=theme)
        assert page.evaluate(CONTRASTS) == []


# How much of each canvas is darker than the darkest colour of the light theme's boxes.
DARK_SHARES = """all => all.map((canvas) => {
  const copy = new OffscreenCanvas(40, 40).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0, 40, 40);
  const { data } = copy.getImageData(0, 0, 40, 40);
  let dark = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 128 && data[i] + data[i + 1] + data[i + 2] < 150) dark++;
  }
  return dark / 1600;
})"""

# Every element with text of its own: its colour against the first background that is not
# transparent; 4.5 is what WCAG asks for.
CONTRASTS = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => {
    const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const rgb = numbers(getComputedStyle(at).backgroundColor);
      if (rgb.length < 4 || rgb[3] > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.tagName === "SCRIPT") continue;
    const front = light(numbers(getComputedStyle(element).color)), back = light(behind(element));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) poor.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


class TestHostileInput:
    @pytest.mark.slow
    @pytest.mark.parametrize("text", [*HOSTILE, SCRIPT], ids=lambda text: text[:12])
    def test_texts_are_shown_as_texts_on_every_page(self, reports: Reports, text: str) -> None:
        trace = trace_of_calls(
            [
                Call("ProfilerStep#1", 0, 100, category="user_annotation"),
                Call(text, 0, 90, stack=(f"{text}.py(3): {text}", text)),
                Call(text, 1, 80, category="kernel", track=1),
                Call(text, 1, 50, category="module", track=2),
            ],
            [Bytes(5, 1000)],
            host=text,
            versions={text: text},
            sources={text: text},
            anomalies={text: 1},
            user={text: text, "nested": {text: [text]}},
        )
        page = reports.open(reports.write(trace, title=text))
        assert page.evaluate("document.title").startswith("Overview - ")
        links = page.locator("nav a")
        for i in range(links.count()):
            links.nth(i).click()
            page.wait_for_function(
                "name => document.title.startsWith(name)", arg=links.nth(i).inner_text()
            )
        assert page.locator("img, iframe, object, main script").count() == 0
        page.goto(address(page).partition("#")[0] + "#overview")
        assert text.split(maxsplit=1)[0] in page.locator("main").inner_text()

    def test_the_policy_lets_nothing_else_in(self, reports: Reports) -> None:
        page = reports.open(training())
        page.evaluate("fetch('https://example.org/').catch(() => {})")
        page.wait_for_timeout(100)
        reports.expect("Content Security Policy")
        reports.troubles[:] = [t for t in reports.troubles if "Content Security" not in t]
        policy = page.locator("meta[http-equiv]").get_attribute("content")
        assert policy.startswith("default-src 'none'")

    def test_a_file_that_was_cut_off_says_so(self, reports: Reports, tmp_path: Path) -> None:
        whole = reports.write(training()).read_bytes()
        cut = tmp_path / "cut.html"
        cut.write_bytes(whole[: whole.index(b'id="data"') + 500])
        page = reports.open(cut, wait=False)
        element = page.get_by_role("alert").inner_text()
        assert element.startswith(
            "This report cannot be shown: Error: the file is damaged or incomplete"
        )
        reports.expect("damaged or incomplete")

    def test_a_page_that_fails_leaves_the_others(self, reports: Reports) -> None:
        page = reports.open(training())
        page.evaluate("() => { Number.prototype.toFixed = () => { throw new Error('planted'); }; }")
        page.evaluate("location.hash = 'overview?again=1'")
        element = page.get_by_role("alert").inner_text()
        assert element == "This page cannot be shown: Error: planted"
        assert page.locator("nav a").count() > 1
        reports.expect("planted")


class TestOverview:
    def test_steps_are_counted_and_the_slow_one_is_named(self, reports: Reports) -> None:
        page = reports.open(training())
        chart = page.get_by_role("slider")
        assert "8 steps, as marked: median 100 µs" in shown(page)
        assert "1 much slower than the rest" in shown(page)
        chart.focus()
        for _ in range(6):
            page.keyboard.press("ArrowRight")
        assert chart.get_attribute("aria-valuetext").startswith("Step 5: 300 µs (slow)")

    def test_a_click_on_a_step_shows_it_in_the_timeline(self, reports: Reports) -> None:
        page = reports.open(training())
        if page.locator("nav a", has_text="Timeline").count() == 0:
            pytest.skip("there is no timeline")
        chart = page.get_by_role("slider")
        chart.focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.wait_for_function("() => location.hash.startsWith('#timeline')")
        assert re.search(r"from=900000&to=1000000\b", address(page))

    def test_operators_lead_to_their_page(self, reports: Reports) -> None:
        page = reports.open(training())
        page.get_by_role("link", name="aten::relu").click()
        page.wait_for_function("() => location.hash.startsWith('#operators')")
        assert page.locator("input[type=search]").first.input_value() == "aten::relu"

    def test_the_peak_of_memory_is_told(self, reports: Reports) -> None:
        page = reports.open(training())
        card = page.locator(".card", has=page.get_by_role("heading", name="Peak memory"))
        assert "4.00 KiB" in card.inner_text()

    def test_losses_are_loud(self, reports: Reports) -> None:
        page = reports.open(training(losses=Losses(1234, "newest", 2**30)))
        element = page.get_by_role("alert").inner_text()
        assert element.startswith("Lost: the newest 1,234 events; the memory limit of 1.00 GiB")

    def test_lower_detail_is_told_and_counted(self, reports: Reports) -> None:
        page = reports.open(reports.write(training(40), most_slices=60))
        element = page.get_by_role("alert").inner_text()
        match = re.search(r"the timeline holds (\d+) of 120 events", element)
        assert match
        assert int(match[1]) <= 60
        assert "120 events on" in shown(page)

    def test_an_empty_trace_has_an_overview(self, reports: Reports) -> None:
        page = reports.open(trace_of_calls([]))
        assert "0 events" in shown(page)
