"""A clone is enough, wherever it is: its tests need nothing beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recording import SOURCE_DIR

ROOT = Path(__file__).parents[1]
# They read samples, documents, examples and tools, or look at the path of the code that they run.
TESTS = (
    "analysis/device/test_device_kernels.py::test_shape_and_memory_where_the_trace_tells",
    "analysis/findings/test_findings_device.py::test_what_is_planted_in_samples_is_found",
    "analysis/host/test_module_table.py::test_the_slice_of_a_whole_recording_is_no_time_of_anybodys",
    "cli/test_cli.py::test_traces_of_other_tools",
    "formats/chrome/test_read_chrome.py::test_tracks_carry_the_metadata_of_a_real_trace",
    "frameworks/paddle/files/test_paddle_files.py::test_the_files_that_paddle_wrote_say_the_same",
    "frameworks/paddle/views/test_paddle_summary.py::test_all_views_look_as_paddle_prints_them",
    "frameworks/torch/dialect/test_contract_rows.py::test_every_row_has_its_tests",
    "job/test_job_figures.py::test_files_of_many_ranks_are_read_as_they_are",
    "record/test_record_stacks.py::test_our_own_frames_are_not_shown",
    "trace/test_schema.py::test_the_docs_are_made_of_the_schema",
    "test_layers.py::test_nothing_neutral_names_a_file_of_a_framework",
)


def test_a_dozen_tests_run_in_a_clone_below_a_folder_with_a_blank(tmp_path: Path) -> None:
    clone = tmp_path / "a folder" / "stepscope"
    copy_tree(clone)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
        + [f"tests/{test}" for test in TESTS],
        cwd=clone,
        env={**environment, "PYTHONPATH": str(SOURCE_DIR)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reasons = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert not reasons


def copy_tree(target: Path) -> None:
    """Copy what a clone would have, and what is new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip(f"{ROOT} is not the working tree of a git repository")
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
