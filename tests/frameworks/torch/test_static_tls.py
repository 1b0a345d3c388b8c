"""Static TLS, of which a process has some 1,600 bytes for all libraries that are loaded late.

torch and the libraries around it take most of that. A library that finds none left does not load.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("elftools")

from elftools.elf.elffile import ELFFile

from stepscope import _native
from stepscope.frameworks.torch.bridge import prebuilt

FOLDER = Path(prebuilt.__file__).parent / "prebuilt"
LIBRARIES = [Path(_native.__file__), *sorted(FOLDER.glob("*.so"))]
MOST_BYTES = 256


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_our_libraries_take_little_of_it(library: Path) -> None:
    with library.open("rb") as file:
        segments = [each for each in ELFFile(file).iter_segments() if each["p_type"] == "PT_TLS"]
        assert sum(each["p_memsz"] for each in segments) <= MOST_BYTES
