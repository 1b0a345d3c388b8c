"""What reading recordings of any Python program takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.host.landmarks import LANDMARKS
from stepscope.formats.registry import FORMATS, Format
from stepscope.lazy import loader
from stepscope.record.stream.places import is_unsealed

if TYPE_CHECKING:
    from pathlib import Path

LANDMARKS.register(loader("stepscope.frameworks.python.landmarks:LANDMARKS"))


def _is_unsealed(path: Path, _head: bytes) -> bool:
    return is_unsealed(path)


FORMATS.register(
    Format(
        "a recording that was not sealed",
        (),
        _is_unsealed,
        loader("stepscope.record.stream.reading:recover"),
    )
)
