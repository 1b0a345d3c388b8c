"""Static TLS, of which a process has some 1,600 bytes for all libraries that are loaded late.

torch and the libraries around it take most of that. A library that finds none left does not load.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("elftools")

from elftools.elf.elffile import ELFFile

from recording import run_python
from stepscope import _native
from stepscope.frameworks.torch.bridge import load

FOLDER = Path(load.__file__).parent / "prebuilt"
LIBRARIES = [Path(_native.__file__), *sorted(FOLDER.glob("*.so"))]
MOST_BYTES = 256

# Loads libraries until one has no room, or so many as it is told to, and records.
CROWDED = """
import ctypes, json, sys, torch, stepscope
loaded = 0
try:
    for path in PATHS[:MOST]:
        ctypes.CDLL(path)
        loaded += 1
except OSError as error:
    assert "static TLS" in str(error), error
with stepscope.profile(record_shapes=True) as profiler:
    torch.ones(2) + 1
names = list(profiler.trace.names())
print(json.dumps([loaded, "aten::add" in names, profiler.trace.info.sources["torch"]]))
"""


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_our_libraries_take_little_of_it(library: Path) -> None:
    with library.open("rb") as file:
        segments = [
            segment for segment in ELFFile(file).iter_segments() if segment["p_type"] == "PT_TLS"
        ]
        assert sum(segment["p_memsz"] for segment in segments) <= MOST_BYTES


@pytest.mark.slow
def test_a_program_without_any_left_is_told_the_way_out(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("there is no compiler to make libraries with")
    source = tmp_path / "taken.c"
    source.write_text(
        '__thread char taken[64] __attribute__((tls_model("initial-exec")));\n'
        "char *take(void) { return taken; }\n"
    )
    first = tmp_path / "0.so"
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(first)], check=True)
    paths = [str(shutil.copy(first, tmp_path / f"{i}.so")) for i in range(1, 200)]

    def record(most: int, **environment: str) -> tuple[list[Any], str]:
        program = CROWDED.replace("PATHS", repr(paths)).replace("MOST", str(most))
        done = run_python(program, **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    (loaded, recorded, source_of), stderr = record(len(paths))
    assert 0 < loaded < len(paths)
    assert recorded
    assert "through the bridge" not in source_of
    assert "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192" in stderr
    assert "building" not in stderr  # what it needs, a new one would need, too
    way_out = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=8192"}
    (again, recorded, source_of), stderr = record(loaded, **way_out)
    assert (again, recorded, stderr) == (loaded, True, "")
    assert "through the bridge" in source_of
