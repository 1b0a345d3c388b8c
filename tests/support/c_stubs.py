"""Libraries of the system that stand in for a driver's: compiled from C for a test."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def compile_library(source: Path, library: Path, *words: str) -> None:
    """Compile it; a test on a machine without a C compiler is skipped."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, *words, "-shared", "-fPIC", "-o", library, source], check=True)
