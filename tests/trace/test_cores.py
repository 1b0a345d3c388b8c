"""How many cores, threads and workers a program has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.record.options import RecordOptions
from stepscope.record.session import Session
from stepscope.record.source import make_sources
from stepscope.trace import cores
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for control groups, with a process that is in none."""
    monkeypatch.setattr(cores, "_CGROUPS", tmp_path)
    monkeypatch.setattr(cores, "_OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_quota_all_that_it_may_run_on_count(groups: Path) -> None:
    assert cores.parallelism_of_process()["cores"] == 8
    write(groups / "cpu.max", "max 100000\n")
    assert cores.parallelism_of_process()["cores"] == 8


def test_the_least_quota_of_the_groups_around_it_counts(groups: Path) -> None:
    write(groups / "own", "0::/a/b\n")
    write(groups / "a" / "cpu.max", "150000 100000\n")
    write(groups / "a" / "b" / "cpu.max", "400000 100000\n")
    assert cores.parallelism_of_process()["cores"] == 1.5


def test_quotas_of_the_first_version_count(groups: Path) -> None:
    write(groups / "own", "3:memory:/m\n2:cpu,cpuacct:/c\n")
    write(groups / "cpu" / "c" / "cpu.cfs_quota_us", "200000\n")
    write(groups / "cpu" / "c" / "cpu.cfs_period_us", "100000\n")
    write(groups / "cpu" / "cpu.cfs_quota_us", "-1\n")
    write(groups / "cpu" / "cpu.cfs_period_us", "100000\n")
    assert cores.parallelism_of_process()["cores"] == 2


@pytest.mark.parametrize("text", ["", "rubbish", "100 0", "1e5 10", "-5 3"])
def test_what_cannot_be_read_is_no_quota(groups: Path, text: str) -> None:
    write(groups / "cpu.max", text)
    write(groups / "cpu" / "cpu.cfs_quota_us", text)
    assert cores.parallelism_of_process()["cores"] == 8


def test_variables_count_where_they_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    monkeypatch.setenv("MKL_NUM_THREADS", "all")
    result = cores.parallelism_of_process()
    assert result["OMP_NUM_THREADS"] == 3
    assert "MKL_NUM_THREADS" not in result


def recorded(run: Any) -> Trace:
    session = Session(make_sources(RecordOptions(loader_workers=True)))
    session.start()
    run()
    session.stop()
    assert session.trace is not None
    return session.trace


def test_a_trace_has_them_and_keeps_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.ones(8, 1))
    plain = torch.utils.data.dataloader._BaseDataLoaderIter.__init__

    def run() -> None:
        for workers in (0, 2, 1):
            assert len(list(DataLoader(data, batch_size=4, num_workers=workers))) == 2

    trace = recorded(run)
    result = trace.info.parallelism
    assert (
        result["cores"] == len(os.sched_getaffinity(0)) or result["cores"] < result["machine cores"]
    )
    assert result["torch threads"] == torch.get_num_threads()
    assert result["torch interop threads"] == torch.get_num_interop_threads()
    assert result["loader workers"] == 2
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__init__ is plain
    trace.save(tmp_path / "it.stepscope")
    assert Trace.load(tmp_path / "it.stepscope").info.parallelism == result


def test_a_program_without_a_loader_has_no_workers() -> None:
    assert "loader workers" not in recorded(lambda: None).info.parallelism
