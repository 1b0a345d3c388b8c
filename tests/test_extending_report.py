"""A finding and a page of the report, added from outside of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from made_trace import Call, trace_of_calls
from stepscope.analysis import DETECTORS, Facts, Finding, Severity, find_problems
from stepscope.report.base.payload import add_table
from stepscope.report.pages import PAGES, Page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.report.base.payload import Payload
    from stepscope.trace.model import Trace

SCRIPT = """
import { h } from "stepscope/dom.js";
import { time } from "stepscope/format.js";
import { shout } from "acme/words/shout.js";

export const page = {
  id: "longest",
  title: "Longest",
  available: (data) => data.has("acme.longest"),
  show: (root, data) => {
    const { name, ns } = data.value("acme.longest");
    root.append(h("h1", { class: "acme" }, `${shout(name)} took ${time(ns)}`));
  },
};
"""


@pytest.fixture
def trace() -> Trace:
    return trace_of_calls([Call("aten::mm", 0, 30), Call("aten::sleep", 40, 140)])


@pytest.fixture
def sleeping() -> Iterator[None]:
    """Register a finding for a test."""

    @DETECTORS.register
    def slept(facts: Facts) -> Finding | None:
        names = {facts.trace.name_of(row) for row in range(len(facts.trace))}
        if "aten::sleep" not in names:
            return None
        evidence = {"page": "timeline", "q": "aten::sleep"}
        text, fix = "The program slept.", "Wake it up."
        return Finding("sleep", "Asleep", text, 0.5, evidence, fix, Severity.HIGH)

    yield
    DETECTORS.unregister(slept)


@pytest.fixture
def longest(tmp_path: Path) -> Iterator[None]:
    """Register a page for a test: a function, and a folder with two scripts and a style sheet."""
    static = tmp_path / "static"
    (static / "words").mkdir(parents=True)
    (static / "longest.js").write_text(SCRIPT, encoding="utf-8")
    (static / "words" / "shout.js").write_text(
        "export const shout = (word) => word.toUpperCase();", encoding="utf-8"
    )
    (static / "acme.css").write_text(".acme { color: rgb(1, 2, 3); }", encoding="utf-8")

    def add_longest(trace: Trace, payload: Payload) -> None:
        row = int(trace.slices.duration_ns.argmax())
        ns = int(trace.slices.duration_ns[row])
        payload.add_value("acme.longest", {"name": trace.name_of(row), "ns": ns})
        add_table(payload, "acme.all", {"ns": trace.slices.duration_ns})

    page = PAGES.register(Page("acme/longest.js", add_longest, static=static))
    yield
    PAGES.unregister(page)


@pytest.mark.usefixtures("sleeping")
def test_a_finding_is_found(trace: Trace) -> None:
    assert "sleep" in {finding.id for finding in find_problems(trace)}
    assert "sleep" not in {f.id for f in find_problems(trace_of_calls([Call("aten::mm", 0, 9)]))}


@pytest.mark.usefixtures("sleeping")
def test_a_finding_is_in_the_report(trace: Trace, reports: Any) -> None:
    page = reports.open(trace)
    assert page.get_by_text("The program slept.").is_visible()


@pytest.mark.usefixtures("longest")
def test_a_page_is_in_the_report(trace: Trace, reports: Any) -> None:
    page = reports.open(trace)
    page.get_by_role("link", name="Longest").click()
    heading = page.get_by_role("heading", name="ATEN::SLEEP took 100 µs")
    assert heading.is_visible()
    assert heading.evaluate("element => getComputedStyle(element).color") == "rgb(1, 2, 3)"


def test_without_them_the_report_is_as_before(trace: Trace, reports: Any) -> None:
    page = reports.open(trace)
    assert page.get_by_role("link", name="Overview").count() == 1
    assert page.get_by_role("link", name="Longest").count() == 0
