"""`stepscope summary --device`: what devices did, a view a question."""

from __future__ import annotations

import csv
import gzip
import json
from typing import TYPE_CHECKING

import pytest

from device_reference import trace_in
from made_trace import Call, trace_of_calls
from sample_traces import HOSTILE, ONE_RANK, sample_name
from stepscope import notices
from stepscope.analysis.device.busy import device_busy
from stepscope.analysis.work.idle import idle_gaps
from stepscope.analysis.work.work import device_work
from stepscope.cli import main
from stepscope.cli.base.device import VIEWS, device_text
from stepscope.text.device import kernel_name_text
from stepscope.trace.model import save_trace as save

if TYPE_CHECKING:
    from pathlib import Path

GPU = ["10", "0", "0", "0"]
CALLS = [
    Call("aten::mm", 0, 20),
    Call("cudaLaunchKernel", 2, 5, "cuda_runtime", correlation=1),
    Call("volta_sgemm_64x64", 10, 60, "kernel", 1, correlation=1),
    Call("aten::add", 65, 80),
    Call("cudaLaunchKernel", 70, 75, "cuda_runtime", correlation=2),
    Call("void at::native::elementwise_kernel<4>(int)", 80, 90, "kernel", 1, correlation=2),
]


@pytest.fixture(autouse=True)
def _every_line_is_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(notices, "_shown", set())
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    save(trace_of_calls(CALLS, pids=GPU, end_ns=100_000), tmp_path / "a.stepscope")
    return "a.stepscope"


def test_the_plain_summary_has_a_line_a_device(
    saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", saved]) == 0
    line = (
        "device 0  busy 60.0 µs of 100 µs (60.0%); "
        "idle: waiting for the host 25%, launch overhead 25%, before the first work 25%"
    )
    assert line in capsys.readouterr().out


def test_the_plain_summary_of_a_host_says_nothing_of_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(trace_of_calls([Call("aten::mm", 0, 5)]), tmp_path / "a.stepscope")
    assert main(["summary", "a.stepscope"]) == 0
    assert "device" not in capsys.readouterr().out.lower()


def test_the_overview_tells_of_everything(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", saved, "--device"]) == 0
    out = capsys.readouterr().out
    assert "60.0 µs   60.0%" in out
    assert "waiting for the host" in out
    assert "volta_sgemm_64x64" in out
    assert "elementwise_kernel<4> " in out  # neither "void at::native::" nor "(int)"


def test_more_rows_than_asked_for_are_counted(
    saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", saved, "--device", "kernels", "--row-limit", "1"]) == 0
    out = capsys.readouterr().out
    assert "(1 more rows)" in out
    assert "elementwise" not in out


def test_a_view_that_does_not_exist_is_named_before_the_trace_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["summary", "no such file", "--device", "kernles"]) == 2
    err = capsys.readouterr().err
    assert "--device kernles: unknown view; use overview, streams" in err


def test_a_trace_without_device_work_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(trace_of_calls([Call("aten::mm", 0, 5)]), tmp_path / "a.stepscope")
    assert main(["summary", "a.stepscope", "--device"]) == 2
    assert "the trace has no device work" in capsys.readouterr().err


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_saved_whole(view: str, saved: str, tmp_path: Path) -> None:
    arguments = ["summary", saved, "--device", view, "--row-limit", "0", "--save"]
    assert main([*arguments, "rows.csv"]) == 0
    assert main([*arguments, "rows.json.gz"]) == 0
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        from_csv = list(csv.DictReader(file))
    from_json = json.loads(gzip.decompress((tmp_path / "rows.json.gz").read_bytes()))
    trace = trace_of_calls(CALLS, pids=GPU, end_ns=100_000)
    columns = VIEWS[view].columns(trace, device_work(trace))
    assert {len(column) for column in columns.values()} == {len(from_csv)} == {len(from_json)}
    assert all(list(row) == list(columns) for row in from_json)


def test_what_is_saved_of_gaps(saved: str, tmp_path: Path) -> None:
    assert main(["summary", saved, "--device", "idle", "--save", "gaps.json"]) == 0
    rows = json.loads((tmp_path / "gaps.json").read_text(encoding="utf-8"))
    assert [row["duration_ns"] for row in rows] == [10_000, 20_000, 10_000]
    assert rows[1]["operator"] == "aten::add"
    assert (rows[1]["host_ns"], rows[1]["launch_ns"]) == (10_000, 10_000)


def test_names_cannot_move_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [*HOSTILE, "\x1b[2Jescape", "[bold]markup[/bold]"]
    calls = []
    for i, name in enumerate(names):
        at = 100 * i
        calls += [
            Call(name, at, at + 9),
            Call("cudaLaunchKernel", at + 1, at + 2, "cuda_runtime", correlation=i),
            Call(name, at + 10, at + 50, "kernel", 1, correlation=i),
            Call(name, at + 20, at + 30, "gpu_memcpy", 2, correlation=i),
        ]
    save(trace_of_calls(calls, pids=GPU), tmp_path / "a.stepscope")
    for view in VIEWS:
        assert main(["summary", "a.stepscope", "--device", view, "--save", "a.csv"]) == 0
        out = capsys.readouterr().out
        assert all(character.isprintable() for character in out.replace("\n", ""))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void at::native::k<4, at::native::F<float> >(int, float*)", "k<4, F<float> >"),
        ("void (anonymous namespace)::k<8>(int (*)(int))", "k<8>"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("Memset (Device)", "Memset (Device)"),
        ("unbalanced)", "unbalanced)"),
        ("", ""),
    ],
)
def test_names_of_kernels_are_shown_without_noise(name: str, shown: str) -> None:
    assert kernel_name_text(name) == shown


@pytest.mark.parametrize("path", ONE_RANK, ids=sample_name)
def test_every_view_of_every_real_trace(path: Path) -> None:
    trace = trace_in(path)
    work = device_work(trace)
    if not len(work):
        return
    for view in VIEWS:
        text = device_text(trace, view, 20)
        assert text
        assert len(text.splitlines()) <= 60
        columns = VIEWS[view].columns(trace, work)
        assert len({len(column) for column in columns.values()}) == 1
    busy = device_busy(trace, work)
    assert idle_gaps(trace, work).duration_ns.sum() == busy.idle_ns.sum()
