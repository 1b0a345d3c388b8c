"""The report's page of memory: its columns against the analyses, and the page in a browser."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from made_memory import Event, Said, trace_with_memory
from made_trace import Call, trace_of_calls
from report_page import address
from sample_traces import HOSTILE, SAMPLES, sample_name
from stepscope import read_trace
from stepscope.analysis.memory.sites import sites_of
from stepscope.analysis.memory.timeline import Category, memory_peak, memory_timeline
from stepscope.analysis.memory.usage import devices, rows_of_device, with_memory
from stepscope.cli.base.show import facts
from stepscope.report.base.overview import overview_of
from stepscope.report.base.payload import Payload
from stepscope.report.sections.events import origin_of
from stepscope.report.sections.memory import add_memory
from stepscope.trace.model import MemoryOwner, SliceFlags
from stepscope.units import size_text

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

KIB = 1024
# The others have no memory events.
WITH_MEMORY = [path for path in SAMPLES if b"[memory]" in gzip.decompress(path.read_bytes())]
OWN = ("model.py(12): forward", "train.py(3): <module>")
LIBRARY = ("torch/nn/linear.py(7): forward", *OWN)

# On the CPU 256 KiB of parameters throughout; activations of 512 KiB from 20 to 150 µs; a gradient
# of 256 KiB from 120 µs on. On the GPU 64 KiB from 30 to 60 µs.
CALLS = [
    Call("aten::linear", 0, 100, stack=LIBRARY),
    Call("aten::empty", 15, 25, stack=LIBRARY),
    Call("MmBackward0", 110, 200, flags=SliceFlags.BACKWARD),
]
EVENTS = [
    Event(20, 512 * KIB, 0x2000),
    Event(30, 64 * KIB, 0x7000, device="cuda:0"),
    Event(60, -64 * KIB, 0x7000, device="cuda:0"),
    Event(120, 256 * KIB, 0x3000),
    Event(150, -512 * KIB, 0x2000),
]
SAID = [
    Said(10, 0x9000, MemoryOwner.PARAMETER, 256 * KIB),
    Said(130, 0x3000, MemoryOwner.GRADIENT, 256 * KIB),
]


def made(calls: list[Call] | None = None, events: list[Event] | None = None) -> Trace:
    return trace_with_memory(calls or CALLS, events or EVENTS, SAID, end_ns=220_000)


def without_addresses(*, totals: bool) -> Trace:
    """Return a trace as Kineto wrote them in 2021: 100 KiB were there before, and no addresses."""
    sizes = [4, 8, 4, -4, 16, -16, -8, -4, -50]
    running = np.cumsum([100, *sizes])[1:]
    return trace_with_memory(
        CALLS,
        [
            Event(20 + i, size * KIB, 0, "cuda:0", allocated=int(total) * KIB * totals)
            for i, (size, total) in enumerate(zip(sizes, running, strict=True))
        ],
        end_ns=220_000,
    )


def unpacked(trace: Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns and values of the section, as the page decodes them."""
    payload = Payload()
    add_memory(trace, payload)
    block = payload.packed()
    size = int.from_bytes(block[:4], "little")
    header = json.loads(block[4 : 4 + size])
    columns = {}
    for name, place in header["columns"].items():
        kind = np.dtype(place["type"])
        start, rows = 4 + size + place["offset"], place["length"]
        planes = np.frombuffer(block, np.uint8, rows * kind.itemsize, start)
        values = np.ascontiguousarray(planes.reshape(kind.itemsize, -1).T).reshape(-1).view(kind)
        columns[name] = np.cumsum(values) if place["codec"] == "sums" else values
    return columns, header["values"]


def check_levels(trace: Trace) -> None:
    """At every moment, what lives then sums to the timeline's level, by device and category."""
    columns, values = unpacked(trace)
    start = columns["memory.start"].astype(np.int64)
    end = start + columns["memory.life"].astype(np.int64)
    names = [device["name"] for device in values["memory.devices"]]
    assert sorted(names) == devices(trace)
    for number, name in enumerate(names):
        timeline = memory_timeline(trace, name)
        times, levels = timeline.levels()
        is_last = np.append(times[1:] != times[:-1], True)
        for time_ns, level in list(zip(times[is_last], levels[is_last], strict=True))[::7]:
            at = time_ns - origin_of(trace)
            live = (start <= at) & (at < end) & (columns["memory.device"] == number)
            sums = np.bincount(
                columns["memory.category"][live], columns["memory.size"][live], len(Category)
            )
            assert sums.tolist() == level.tolist()
        top = timeline.peak()
        result = values["memory.devices"][number]["peak"]
        live = (
            (start <= result["time"])
            & (result["time"] < end)
            & (columns["memory.device"] == number)
        )
        assert columns["memory.size"][live].sum() == top.bytes
        assert (result["bytes"], result["time"]) == (top.bytes, top.time_ns - origin_of(trace))


class TestColumns:
    def test_a_trace_without_memory_adds_nothing(self) -> None:
        columns, values = unpacked(trace_of_calls([Call("aten::mm", 0, 10)]))
        assert not columns
        assert not values

    def test_live_blocks_sum_to_the_levels(self) -> None:
        check_levels(made())

    def test_of_many_blocks_too(self) -> None:
        random = np.random.default_rng(5)
        events, at = [], 0.0
        for i in range(400):
            at += float(random.integers(0, 4))
            device = ("cpu", "cuda:0")[int(random.integers(2))]
            size = int(random.integers(1, 9000))
            sign = -1 if random.random() < 0.4 else 1
            address = int(random.integers(1, 40)) if sign < 0 else 1 + i % 40
            events.append(Event(at, sign * size, address, device))
        check_levels(trace_with_memory([Call("aten::mm", 0, 50)], events, end_ns=2_000_000))

    def test_of_a_file_without_addresses(self) -> None:
        check_levels(without_addresses(totals=True))
        check_levels(without_addresses(totals=False))

    @pytest.mark.parametrize("path", WITH_MEMORY, ids=sample_name)
    def test_one_peak_in_real_traces(self, path: Path) -> None:
        """Terminal, overview and page have one number: the greatest total of the file."""
        trace = with_memory(read_trace(path))
        assert len(trace.memory)
        check_levels(trace)
        texts = [text for label, text in facts(trace) if label == "memory"]
        for peak, text in zip(overview_of(trace).peaks, texts, strict=True):
            result = trace.memory.allocated[rows_of_device(trace, peak.device)]
            assert peak.bytes == result.max()
            assert text.startswith(f"{peak.device}: {size_text(peak.bytes)} in use at the peak")

    def test_blocks_end_in_the_order_the_page_is_told(self) -> None:
        columns, _ = unpacked(made())
        end = (columns["memory.start"] + columns["memory.life"])[columns["memory.ended"]]
        assert (np.diff(end) >= 0).all()

    def test_the_gpu_comes_first(self) -> None:
        _, values = unpacked(made())
        assert [device["name"] for device in values["memory.devices"]] == ["cuda:0", "cpu"]

    def test_a_recording_equals_its_analyses(self, torch_recording: Trace) -> None:
        check_levels(torch_recording)
        columns, values = unpacked(torch_recording)
        top = memory_peak(torch_recording)
        assert top is not None
        assert values["memory.devices"][0]["peak"]["bytes"] == top.bytes
        result = overview_of(torch_recording).peaks
        assert [(peak.device, peak.bytes) for peak in result] == [("cpu", top.bytes)]
        site = values["memory.devices"][0]["peak"]["site"]
        assert torch_recording.strings[int(columns["memory.sites.operator"][site])]


class TestSites:
    def test_an_operator_that_only_allocates_does_so_for_another(self) -> None:
        trace = made()
        timeline = memory_timeline(trace, "cpu")
        sites = sites_of(trace, timeline.slice)
        names = {
            trace.strings[int(sites.operator[site])]
            for site, row in zip(sites.of_slice, timeline.slice, strict=True)
            if row >= 0
        }
        assert names == {"aten::linear", "MmBackward0"}

    def test_the_line_is_the_innermost_of_the_users(self) -> None:
        trace = made()
        sites = sites_of(trace, np.array([0], np.int32))
        assert trace.strings[int(sites.line[0])] == OWN[0]
        frames = sites.stacks.frames(int(sites.stack[0]))
        assert tuple(trace.strings[frame] for frame in frames) == LIBRARY

    def test_nothing_is_known_of_no_slice(self) -> None:
        sites = sites_of(made(), np.array([-1], np.int32))
        assert (sites.operator[0], sites.module[0], sites.line[0], sites.stack[0]) == (0, 0, 0, 0)


@pytest.fixture(scope="module")
def torch_recording() -> Trace:
    torch = pytest.importorskip("torch")
    import stepscope

    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters())
    with stepscope.profile(profile_memory=True, with_stack=True, with_modules=True) as prof:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(16, 32)).sum().backward()
            optimizer.step()
    return prof.trace


def text(page: Any, selector: str) -> str:
    return str(page.locator(selector).text_content())


def state(page: Any) -> dict[str, str]:
    _, _, query = address(page).partition("?")
    return dict(pair.split("=", 1) for pair in query.split("&") if pair)


def click_at(page: Any, microseconds: float) -> None:
    """Click the chart when it shows all 220 µs."""
    box = page.locator(".memory-chart").bounding_box()
    x = 76 + microseconds / 220 * (box["width"] - 76 - 12)
    page.locator(".memory-chart").click(position={"x": x, "y": box["height"] / 2})


def rows(page: Any) -> list[list[str]]:
    script = "all => all.map(tr => [...tr.children].map(cell => cell.textContent))"
    return list(page.locator(".memory-table tbody tr").evaluate_all(script))


class TestPage:
    def test_it_starts_at_the_peak(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu")
        assert text(page, ".memory-peak") == "Peak 1.00 MiB at 120 µs in MmBackward0"
        assert "At 120 µs: 1.00 MiB in 3 allocations" in text(page, ".memory-moment")
        assert rows(page)[0][:3] == ["aten::linear", "512 KiB", "1"]

    def test_a_click_shows_what_lives_then(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu")
        click_at(page, 10)
        assert rows(page) == [["(no operator)", "256 KiB", "1", "256 KiB"]]
        click_at(page, 50)
        assert [row[0] for row in rows(page)] == ["aten::linear", "(no operator)"]
        assert "768 KiB in 2 allocations" in text(page, ".memory-moment")
        assert 49_000 < int(state(page)["at"]) < 51_000

    def test_devices_are_chosen_or_seen_together(self, reports: Any) -> None:
        page = reports.open(made(), "memory")
        assert text(page, ".memory-peak").startswith("Peak 64.0 KiB at 30.0 µs in aten::linear")
        page.get_by_label("Device").select_option(label="all devices")
        page.wait_for_selector(".memory-legend label:has-text('cuda:0')")
        assert text(page, ".memory-peak") == "Peak 1.00 MiB at 120 µs"
        click_at(page, 40)
        assert "832 KiB in 3 allocations" in text(page, ".memory-moment")

    def test_groups_that_the_trace_does_not_know_are_absent(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu")
        options = page.get_by_label("Group by").locator("option").all_text_contents()
        assert "Module" not in options
        assert "Stack" in options
        bare = [Call("aten::mm", 0, 100), Call("MmBackward0", 110, 200, flags=SliceFlags.BACKWARD)]
        page = reports.open(made(bare), "memory?device=cpu")
        options = page.get_by_label("Group by").locator("option").all_text_contents()
        assert options == ["Operator", "Category", "Single allocations"]

    def test_a_stack_shows_its_frames(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu&group=stack&at=50000")
        assert rows(page)[0][0] == "model.py(12): forward → torch/nn/linear.py(7): forward"
        page.locator(".memory-table tbody tr").first.click()
        assert page.locator(".memory-details li").all_text_contents() == list(LIBRARY)
        assert "freed at 150 µs, after 130 µs" in text(page, ".memory-details")

    def test_a_moment_leads_to_the_timeline(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu&at=50000")
        link = page.get_by_role("link", name="Timeline at this moment")
        assert link.get_attribute("href") == "#timeline?from=39000&to=61000"
        page.locator(".memory-table tbody tr").first.click()
        page.get_by_role("link", name="Timeline at its allocation").click()
        page.wait_for_selector("main.page-timeline")
        assert "sel=1" in address(page)  # aten::empty, in which the block was allocated

    def test_keys_move_the_cursor_and_the_view(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu")
        page.locator(".memory-chart").focus()
        page.keyboard.press("ArrowRight")
        assert state(page)["at"] == "150000"  # the next change
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert state(page)["at"] == "20000"
        page.keyboard.press("w")
        first = state(page)
        assert int(first["to"]) - int(first["from"]) == pytest.approx(220_000 * 0.7, abs=2)
        page.keyboard.press("d")
        assert int(state(page)["from"]) > int(first["from"])
        page.keyboard.press("a")
        page.keyboard.press("s")
        page.keyboard.press("f")
        assert "from" not in state(page)
        page.keyboard.press("p")
        assert state(page)["at"] == "120000"

    def test_the_wheel_zooms_and_a_drag_moves(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu")
        box = page.locator(".memory-chart").bounding_box()
        middle, y = box["x"] + 600, box["y"] + 150
        page.mouse.move(middle, y)
        page.mouse.wheel(0, -400)
        page.wait_for_function("() => location.hash.includes('from=')")
        before = state(page)
        page.mouse.down()
        page.mouse.move(middle - 100, y, steps=4)
        page.mouse.up()
        after = state(page)
        assert int(after["from"]) > int(before["from"])
        assert after.get("at") == before.get("at")  # a drag is no click

    def test_a_category_can_be_left_out(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu&at=50000")
        page.get_by_label("parameter").uncheck()
        assert "512 KiB in 1 allocation " in text(page, ".memory-moment")
        assert state(page)["hide"] == "parameter"

    def test_the_state_comes_back_from_the_address(self, reports: Any) -> None:
        page = reports.open(made(), "memory?device=cpu&at=50000&group=block&hide=parameter")
        assert page.get_by_label("Group by").input_value() == "block"
        assert [row[0] for row in rows(page)] == ["aten::linear"]

    @pytest.mark.slow
    @pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
    def test_hostile_names_are_text(self, reports: Any, name: str) -> None:
        calls = [Call(name, 0, 100, stack=(f"{name}(1): {name}",)), *CALLS[2:]]
        page = reports.open(made(calls), "memory?device=cpu&group=stack&at=50000")
        shown = f"{name}(1): {name}"
        assert rows(page)[0][0] == (shown if len(shown) <= 400 else shown[:400] + "…")

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_a_real_recording(self, reports: Any, torch_recording: Trace, theme: str) -> None:
        page = reports.open(torch_recording, "memory?group=module", theme=theme)
        reports.shot(page, f"memory-{theme}")
        names = [row[0] for row in rows(page)]
        assert any(name in {"0", "2", "Linear"} or "Linear" in name for name in names)
