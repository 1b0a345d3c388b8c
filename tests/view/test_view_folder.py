"""Which traces `stepscope view` finds in a folder, and what it tells of them."""

from __future__ import annotations

import gzip
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from made_trace import Call, trace_of_calls
from sample_traces import SAMPLES, sample_name
from stepscope.errors import TraceReadError
from stepscope.formats import read_trace
from stepscope.frameworks.paddle.files.write_pb import export_paddle_pb
from stepscope.view import folder as folder_module
from stepscope.view.library import key_figures
from viewing import folder_at, saved, small_trace, written

if TYPE_CHECKING:
    from pathlib import Path


def names(root: Path) -> list[str]:
    return [item.name for item in folder_at(root).listing().traces]


def text(path: Path, content: str | bytes, age_s: float = 3600) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return written(path, age_s)


# What is listed.


def test_traces_of_every_format_the_newest_first(tmp_path: Path) -> None:
    saved(tmp_path / "a.stepscope", age_s=400)
    saved(tmp_path / "b.json", age_s=300)
    saved(tmp_path / "runs" / "1" / "c.json.gz", age_s=200)
    export_paddle_pb(small_trace(), tmp_path / "d.pb")
    written(tmp_path / "d.pb", age_s=100)
    assert names(tmp_path) == ["d.pb", "runs/1/c.json.gz", "b.json", "a.stepscope"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("package.json", '{"name": "x"}'),
        ("list.json", "[1, 2, 3]"),
        ("other.json.gz", gzip.compress(b'{"rows": []}', mtime=0)),
        ("model.pb", b"\x08\x01\x12\x03abc"),
        ("trace.txt", '{"traceEvents": []}'),
        (".hidden.json", '{"traceEvents": []}'),
    ],
)
def test_other_files_are_not_listed(tmp_path: Path, name: str, content: str | bytes) -> None:
    text(tmp_path / name, content)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.json", ""),
        ("cut.json", '{"traceEvents": [{"ph":'),
        ("cut.json.gz", gzip.compress(b'{"traceEvents": []}', mtime=0)[:5]),
    ],
)
def test_a_broken_trace_is_listed(tmp_path: Path, name: str, content: str | bytes) -> None:
    text(tmp_path / name, content)
    assert names(tmp_path) == [name]


def test_hidden_folders_and_caches_are_left_out(tmp_path: Path) -> None:
    for folder in (".git", "node_modules", "__pycache__"):
        saved(tmp_path / folder / "a.json")
    assert names(tmp_path) == []


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    written(tmp_path / "a.json")
    assert names(tmp_path) == []


# While they are written.


def test_a_file_that_still_grows_is_not_listed(tmp_path: Path) -> None:
    saved(tmp_path / "a.json", age_s=1)
    saved(tmp_path / "b.json.gz", age_s=1)
    text(tmp_path / "c.json", '{"traceEvents": [{"ph":', age_s=30)
    assert names(tmp_path) == []
    written(tmp_path / "a.json", age_s=3)
    written(tmp_path / "b.json.gz", age_s=3)
    assert names(tmp_path) == ["a.json", "b.json.gz"]


def test_half_a_folder_is_not_listed(tmp_path: Path) -> None:
    whole = saved(tmp_path / "elsewhere" / "a.stepscope")
    root = tmp_path / "root"
    copy = root / "a.stepscope"
    copy.mkdir(parents=True)
    written(copy, age_s=1)
    for part in sorted(whole.iterdir()):
        assert names(root) == []
        shutil.copy(part, copy / part.name)
        written(copy, age_s=1)
    assert names(root) == ["a.stepscope"]


def test_what_save_and_the_exporters_write_first_is_not_listed(tmp_path: Path) -> None:
    saved(tmp_path / ".a.stepscope.0a1b2c3d")
    saved(tmp_path / ".a.json.0a1b2c3d.json")
    assert names(tmp_path) == []


def test_a_removed_trace_disappears_and_a_new_one_appears(tmp_path: Path) -> None:
    folder = folder_at(tmp_path)
    saved(tmp_path / "a.json")
    assert [item.name for item in folder.listing().traces] == ["a.json"]
    (tmp_path / "a.json").unlink()
    saved(tmp_path / "b.stepscope")
    assert [item.name for item in folder.listing().traces] == ["b.stepscope"]


# Bounds.


def test_folders_too_deep_are_not_looked_at_and_that_is_told(tmp_path: Path) -> None:
    saved(tmp_path / "1/2/3/4/5/in.json")
    listing = folder_at(tmp_path).listing()
    assert [item.name for item in listing.traces] == ["1/2/3/4/5/in.json"]
    assert not listing.left_out
    saved(tmp_path / "1/2/3/4/5/6/out.json")
    listing = folder_at(tmp_path).listing()
    assert [item.name for item in listing.traces] == ["1/2/3/4/5/in.json"]
    assert listing.left_out == "folders below depth 5 were not scanned"


def test_only_so_many_names_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_ENTRIES", 2)
    for name in ("a.json", "b.json", "c.json"):
        saved(tmp_path / name)
    listing = folder_at(tmp_path).listing()
    assert [item.name for item in listing.traces] == ["a.json", "b.json"]
    assert listing.left_out == "only the first 2 names were scanned"


def test_only_the_newest_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_TRACES", 1)
    saved(tmp_path / "old.json", age_s=200)
    saved(tmp_path / "new.json", age_s=100)
    listing = folder_at(tmp_path).listing()
    assert [item.name for item in listing.traces] == ["new.json"]
    assert listing.left_out == "only the newest 1 of 2 traces are shown"


# Nothing outside of the folder.


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = saved(tmp_path / "outside" / "secret.json")
    stored = saved(tmp_path / "outside" / "secret.stepscope")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.json").symlink_to(outside)
    (root / "b.stepscope").symlink_to(stored)
    (root / "c").symlink_to(outside.parent)
    assert names(root) == []


def test_a_trace_folder_that_holds_a_link_is_not_listed(tmp_path: Path) -> None:
    outside = saved(tmp_path / "outside" / "a.stepscope")
    inside = saved(tmp_path / "root" / "a.stepscope")
    (inside / "slices.arrow").unlink()
    (inside / "slices.arrow").symlink_to(outside / "slices.arrow")
    assert names(tmp_path / "root") == []


@pytest.mark.parametrize("change", ["file", "folder"])
def test_a_link_that_takes_a_traces_place_is_not_followed(tmp_path: Path, change: str) -> None:
    outside = saved(tmp_path / "outside" / "a.json")
    inside = saved(tmp_path / "root" / "sub" / "a.json")
    folder = folder_at(tmp_path / "root")
    (result,) = folder.listing().traces
    assert folder.path_of(result) == inside.resolve()
    if change == "file":
        inside.unlink()
        inside.symlink_to(outside)
    else:
        shutil.rmtree(inside.parent)
        inside.parent.symlink_to(outside.parent)
    with pytest.raises(TraceReadError, match="was changed or removed"):
        folder.path_of(result)


def test_the_folder_itself_may_be_reached_by_a_link(tmp_path: Path) -> None:
    saved(tmp_path / "real" / "a.json")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = folder_at(tmp_path / "link")
    (result,) = folder.listing().traces
    assert folder.path_of(result) == (tmp_path / "real" / "a.json").resolve()


# Figures.


def test_the_figures_of_a_trace() -> None:
    figures = key_figures(small_trace())
    assert figures.events == 6
    assert figures.duration_ns == 20_000_000
    assert (figures.steps, figures.median_step_ns) == (2, 10_000_000)
    assert figures.device_busy is None
    assert (figures.peak_bytes, figures.peak_device) == (4096, "cpu")
    assert (figures.top_operator, figures.top_share) == ("aten::mm", 0.3)


def test_a_devices_figures() -> None:
    calls = [
        Call("aten::mm", 0, 10),
        Call("aten::add", 20, 90),
        Call("cudaLaunchKernel", 2, 4, category="cuda_runtime", correlation=1, external_id=1),
        Call("gemm", 20, 70, category="kernel", track=1, correlation=1, external_id=1),
    ]
    figures = key_figures(trace_of_calls(calls, end_ns=100_000))
    assert figures.device_busy == 0.5
    assert figures.steps == 0
    assert figures.median_step_ns is None


def test_a_trace_of_ranges_and_one_of_nothing() -> None:
    ranges = trace_of_calls([Call("load", 0, 30, category="user_annotation")])
    assert key_figures(ranges).top_operator == "load"
    nothing = key_figures(trace_of_calls([]))
    assert (nothing.events, nothing.top_operator, nothing.top_share) == (0, "", None)


def test_a_long_name_is_cut() -> None:
    assert len(key_figures(small_trace("x" * 10_000)).top_operator) == 200


@pytest.mark.parametrize("path", SAMPLES, ids=sample_name)
def test_every_real_trace_has_figures(path: Path) -> None:
    figures = key_figures(read_trace(path))
    assert figures.events > 0
    assert figures.duration_ns > 0
    assert figures.top_operator
    assert figures.device_busy is None or 0 < figures.device_busy <= 1
