"""Terminal, saved tables and page tell the same device times and shares: those that happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import stepscope
from report_data import PageData
from sample_traces import ONE_RANK, sample_name
from stepscope.analysis.base.intervals import union
from stepscope.analysis.base.shared import shared_analyses
from stepscope.analysis.work.kernel_names import kernel_name
from stepscope.analysis.work.work import device_work
from stepscope.cli.base.device import device_facts, device_text
from stepscope.report.sections.flame import add_flame
from stepscope.report.sections.kernels import add_kernels
from stepscope.report.sections.overview import add_overview
from stepscope.units import duration_text, percent_text

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace


WITH_DEVICE = [path for path in ONE_RANK if path.name.startswith(("made", "h200"))]


@pytest.mark.parametrize("path", WITH_DEVICE, ids=sample_name)
def test_every_place_tells_the_same(path: Path, tmp_path: Path) -> None:
    trace = stepscope.read_trace(path)
    with shared_analyses():
        pages = [PageData.of(add, trace) for add in (add_overview, add_kernels, add_flame)]
        _check_devices(trace, pages, tmp_path)
        _check_kernels(trace, pages, tmp_path)


def _check_devices(trace: Trace, pages: list[PageData], folder: Path) -> None:
    overview, kernels, _ = pages
    work = device_work(trace)
    busy_ns = {
        name: union(work.start_ns[work.device == i], work.end_ns[work.device == i]).total_ns
        for i, name in enumerate(work.devices)
    }
    shown = overview.values["overview"]["devices"]
    assert {device["name"]: device["busy_ns"] for device in shown} == busy_ns
    assert overview.values["overview"]["busy_ns"] == sum(busy_ns.values())
    table = kernels.table("devices")
    assert dict(zip(table["device"], table["busy_ns"], strict=True)) == busy_ns
    rows = _saved(trace, "overview", folder)
    assert {row["device"]: row["busy_ns"] for row in rows} == busy_ns
    by_name = dict(device_facts(trace))
    for device in list(busy_ns)[:1]:
        assert f"busy {duration_text(busy_ns[device])} of" in by_name[f"device {device}"]


def _check_kernels(trace: Trace, pages: list[PageData], folder: Path) -> None:
    overview, page, flame = pages
    work = device_work(trace)
    busy_ns = overview.values["overview"]["busy_ns"]
    total: dict[str, int] = {}
    ran = work.rows[work.is_kernel]
    for row, ns in zip(ran.tolist(), trace.slices.duration_ns[ran].tolist(), strict=True):
        total[trace.name_of(row)] = total.get(trace.name_of(row), 0) + ns
    rows = _saved(trace, "kernels", folder)
    assert {row["name"]: row["total_ns"] for row in rows} == total
    assert all(row["busy_share"] == row["total_ns"] / busy_ns for row in rows)
    assert sum(page.table("kernels.name")["total_ns"]) == sum(total.values())
    for grouping in page.values["kernels.groupings"]:
        table = page.table(f"kernels.{grouping}")
        assert sum(table["total_ns"]) == sum(total.values())
        assert np.allclose(table["busy_share"], np.array(table["total_ns"]) / busy_ns)
        assert set(table["name"]) == set(map(kernel_name, total))
    top = overview.values["overview"]["kernels"]
    assert [(row["name"], row["self_ns"]) for row in top] == [
        (kernel_name(row["name"]), row["total_ns"]) for row in rows[: len(top)]
    ]
    text = device_text(trace, "kernels", 1)
    if rows:
        assert percent_text(rows[0]["busy_share"]) in text
        assert set(map(kernel_name, total)) <= set(flame.texts("flame.calls"))


def _saved(trace: Trace, view: str, folder: Path) -> list[dict[str, Any]]:
    path = folder / f"{view}.json"
    device_text(trace, view, -1, str(path))
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    return rows
