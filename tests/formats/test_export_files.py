from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sample_traces import recording
from stepscope.errors import StepscopeError
from stepscope.formats.base.registry import FORMATS, export_trace, format_to_write
from stepscope.formats.chrome import write as chrome
from stepscope.formats.chrome.write import export_chrome
from stepscope.trace.model import Trace
from torch_json import load_json


def test_the_suffix_picks_the_format(tmp_path: Path) -> None:
    export_trace(recording(), tmp_path / "trace.json")
    export_trace(recording(), tmp_path / "TRACE.JSON.GZ")
    export_trace(recording(), tmp_path / "trace.stepscope")
    assert load_json((tmp_path / "trace.json").read_bytes())["schemaVersion"] == 1
    assert load_json(gzip.decompress((tmp_path / "TRACE.JSON.GZ").read_bytes()))
    assert len(Trace.load(tmp_path / "trace.stepscope")) == 2


def test_every_exporter_can_be_imported() -> None:
    for exporter in (item for item in FORMATS if item.writer):
        assert callable(exporter.writer())
        assert all(format_to_write(f"x{suffix}") is exporter for suffix in exporter.suffixes)


@pytest.mark.parametrize("name", ["trace.xyz", "trace", "json", "trace.gz"])
def test_an_unknown_suffix_names_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(StepscopeError, match=r"\.json \(Chrome trace\).*\.stepscope") as raised:
        export_trace(recording(), tmp_path / name)
    assert name in str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert not list(tmp_path.iterdir())


def test_a_path_may_be_text_or_any_path_object(tmp_path: Path) -> None:
    class Where:
        def __fspath__(self) -> str:
            return str(tmp_path / "b.json")

    export_chrome(recording(), str(tmp_path / "a.json"))
    export_chrome(recording(), Where())
    assert (tmp_path / "a.json").stat().st_size == (tmp_path / "b.json").stat().st_size


@pytest.mark.parametrize("with_isal", [True, False])
def test_gzip_holds_the_same_text_with_and_without_isal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_isal: bool
) -> None:
    if with_isal:
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
    trace = recording([f"op {i}" for i in range(3_000)], producer="another tool")
    export_chrome(trace, tmp_path / "plain.json")
    export_chrome(trace, tmp_path / "packed.json.gz")
    plain, packed = (tmp_path / "plain.json"), (tmp_path / "packed.json.gz")
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.stat().st_size < plain.stat().st_size / 5


def test_progress_ends_at_the_number_of_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chrome, "_CHUNK_BYTES", 300)
    calls: list[tuple[int, int]] = []
    trace = recording([f"op {i}" for i in range(20)])
    export_chrome(trace, tmp_path / "t.json", lambda done, total: calls.append((done, total)))
    assert len(calls) > 2
    assert calls == sorted(calls)
    assert calls[-1] == (20, 20)


def test_a_failed_export_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("old")

    def fail(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_chrome(recording(), path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    export_chrome(recording(), path)
    assert load_json(path.read_text())
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    export_chrome(recording(), tmp_path / "trace.json")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "trace.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    export_chrome(recording(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert load_json((tmp_path / "real.json").read_text())


def test_what_is_no_regular_file_is_written_in_place() -> None:
    export_chrome(recording(), os.devnull)
    assert not Path(os.devnull).is_file()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StepscopeError, match="nowhere does not exist; create it"):
        export_chrome(recording(), tmp_path / "nowhere" / "trace.json")
    with pytest.raises(StepscopeError, match="is a folder"):
        export_chrome(recording(), tmp_path)


def test_a_program_may_export_while_it_exits(tmp_path: Path) -> None:
    program = f"""
import atexit, sys
sys.path[:0] = {sys.path!r}
from sample_traces import recording
from stepscope.formats import export_trace
atexit.register(lambda: export_trace(recording(), {str(tmp_path / "late.json")!r}))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert load_json((tmp_path / "late.json").read_text())
