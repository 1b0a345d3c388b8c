"""Another package adds a measure with one call: every page, table and format then has it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import ENVIRONMENT, python
from made_report import trace_of_a_step
from stepscope.analysis.device.kernels import kernel_table
from stepscope.analysis.host.averages import averages
from stepscope.trace.measures import Measure, Sums, add_measure, remove_measure
from stepscope.trace.model import SliceKind, Trace
from stepscope.units import SHARE, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTENSIONS = Path(__file__).parent / "extensions"
JOULES = Unit("energy", "nJ", ((1e9, "J"), (1e6, "mJ"), (1e3, "µJ"), (1, "nJ")))
ENERGY = Measure("energy", "Energy", JOULES, "what the device used for it")
NJ_A_KERNEL = 1_500_000


@pytest.fixture
def energy() -> Iterator[None]:
    """Register the measure, as ``extensions/energy.py`` does, for a test in this process."""
    add_measure(ENERGY)
    yield
    remove_measure(ENERGY)


def with_energy(trace: Trace, nj_a_kernel: int = NJ_A_KERNEL) -> Trace:
    """Return the trace with some energy for each kernel."""
    slices = trace.slices
    nj = np.where(slices.kind == SliceKind.KERNEL, nj_a_kernel, 0)
    return replace(trace, slices=replace(slices, added={"energy": nj}))


@pytest.fixture
def kernels() -> int:
    return int((trace_of_a_step().slices.kind == SliceKind.KERNEL).sum())


@pytest.fixture
def installed(tmp_path: Path, energy: None) -> Path:
    """Install the extension, save two traces beside it, and return the folder."""
    about = tmp_path / "site" / "measuring_energy-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: measuring-energy\n")
    (about / "entry_points.txt").write_text("[stepscope]\nenergy = energy\n")
    with_energy(trace_of_a_step()).save(tmp_path / "before.stepscope")
    with_energy(trace_of_a_step(), 2 * NJ_A_KERNEL).save(tmp_path / "after.stepscope")
    return tmp_path


def stepscope(folder: Path, *words: str) -> str:
    paths = [str(folder / "site"), str(EXTENSIONS), ENVIRONMENT["PYTHONPATH"]]
    done = python("-m", "stepscope", *words, cwd=folder, PYTHONPATH=os.pathsep.join(paths))
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- the analyses


@pytest.mark.usefixtures("energy")
def test_calls_have_the_energy_of_what_they_launched(kernels: int) -> None:
    rows = averages(with_energy(trace_of_a_step()))
    on_host = ~rows.is_device
    step = list(rows.key).index("ProfilerStep*")
    assert rows.added["energy"][step] == kernels * NJ_A_KERNEL
    assert rows.added["self_energy"][on_host].sum() == kernels * NJ_A_KERNEL
    assert rows.to_polars()["energy"][step] == kernels * NJ_A_KERNEL


@pytest.mark.usefixtures("energy")
def test_a_kernel_has_the_energy_of_all_its_runs(kernels: int) -> None:
    table = kernel_table(with_energy(trace_of_a_step()))
    assert table.added["energy"].tolist() == (table.count * NJ_A_KERNEL).tolist()
    assert table.count.sum() == kernels


def test_a_weighted_measure_of_a_kernel_is_the_mean_over_its_time() -> None:
    efficiency = Measure("efficiency", "Efficiency", SHARE, sums=Sums.WEIGHTED)
    add_measure(efficiency)
    try:
        trace = trace_of_a_step()
        slices = trace.slices
        rows = np.flatnonzero(slices.kind == SliceKind.KERNEL)
        values = np.full(len(slices), -1)
        values[rows] = [10, 90]
        trace = replace(trace, slices=replace(slices, added={"efficiency": values}))
        took_ns = slices.duration_ns[rows]
        mean = (values[rows] * took_ns).sum() // took_ns.sum()
        assert kernel_table(trace).added["efficiency"].tolist() == [mean]
    finally:
        remove_measure(efficiency)


@pytest.mark.usefixtures("energy")
def test_a_trace_without_values_has_no_column() -> None:
    assert not kernel_table(trace_of_a_step()).added
    assert not averages(trace_of_a_step()).added


def test_a_measure_adds_up_or_is_weighted() -> None:
    with pytest.raises(ValueError, match="use ADDED or WEIGHTED"):
        add_measure(replace(ENERGY, sums=Sums.CALLS))


# ---- where people see it


def test_a_saved_trace_has_it(installed: Path, kernels: int) -> None:
    opened = Trace.load(installed / "before.stepscope")
    assert opened.slices.energy.sum() == kernels * NJ_A_KERNEL


def test_the_summary_has_a_column_and_a_fact(installed: Path) -> None:
    lines = stepscope(installed, "summary", "before.stepscope").splitlines()
    heading = next(line for line in lines if line.startswith("operators"))
    assert heading.split()[-1] == "energy"
    (mm,) = (line.split() for line in lines if line.startswith("aten::mm "))
    assert mm[-2:] == ["3.00", "mJ"]
    assert any(line.split()[:3] == ["energy", "3.00", "mJ,"] for line in lines)


def test_the_table_of_kernels_in_the_terminal_has_a_column(installed: Path) -> None:
    shown = stepscope(installed, "summary", "--device", "kernels", "before.stepscope")
    heading, _, row = shown.rstrip("\n").split("\n")[-3:]
    assert heading.split()[-1] == "Energy"
    assert row.split()[-2:] == ["3.00", "mJ"]


def test_json_has_the_sum_and_who_has_most_of_it(installed: Path) -> None:
    summary = json.loads(stepscope(installed, "summary", "--json", "before.stepscope"))
    (energy,) = summary["measures"]
    assert energy["name"] == "energy"
    assert energy["total"] == 2 * NJ_A_KERNEL
    assert energy["unit"] == "nJ"
    assert energy["rows"] == [{"name": "gemm_64", "total": 2 * NJ_A_KERNEL}]


def test_sql_has_it_in_slices_operators_and_kernels(installed: Path) -> None:
    def sql(query: str) -> Any:
        shown = stepscope(installed, "sql", "before.stepscope", query, "--json")
        return json.loads(shown)["rows"]

    assert sql("select sum(energy) as nj from slices") == [{"nj": 2 * NJ_A_KERNEL}]
    assert sql("select name, sum(energy) as nj from kernels where energy > 0 group by name") == [
        {"name": "gemm_64", "nj": 2 * NJ_A_KERNEL}
    ]
    assert sql("select name, sum(energy) as nj from ops where energy > 0 group by name") == [
        {"name": "aten::mm", "nj": 2 * NJ_A_KERNEL}
    ]
    assert "nJ; what the device used for it" in stepscope(installed, "sql", "--tables")


def test_diff_says_how_it_changed(installed: Path) -> None:
    words = ("diff", "before.stepscope", "after.stepscope")
    assert "energy a step: 3.00 mJ to 6.00 mJ" in stepscope(installed, *words)
    counts = json.loads(stepscope(installed, *words, "--json"))["counts"]
    (energy,) = (count for count in counts if count["what"] == "energy")
    assert (energy["before"], energy["difference"], energy["unit"]) == (3e6, 3e6, "nJ")


@pytest.mark.usefixtures("energy")
@pytest.mark.parametrize(
    ("place", "row", "columns"),
    [
        ("operators?when=run", "aten::mm", ("Self energy", "Energy")),
        ("kernels", "gemm_64", ("Energy",)),
    ],
)
def test_the_report_has_columns(
    reports: Any, place: str, row: str, columns: tuple[str, ...]
) -> None:
    page = reports.open(with_energy(trace_of_a_step()), place)
    headings = page.locator("thead th").all_inner_texts()
    cells = page.locator("tbody tr", has_text=row).first.locator("th, td").all_inner_texts()
    for column in columns:
        assert cells[headings.index(column)] == "3.00 mJ", (headings, cells)
