"""Registers what readers need for any Python program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.analysis.base.landmarks import LANDMARKS
from stepscope.formats.base.registry import FORMATS, Format
from stepscope.lazy import loader
from stepscope.record.stream.places import is_unsealed
from stepscope.trace.placing import RECORDINGS

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

LANDMARKS.register(loader("stepscope.frameworks.python.landmarks:LANDMARKS"))


def _is_unsealed(path: Path, _head: bytes) -> bool:
    return is_unsealed(path)


@RECORDINGS.register
def _recording(path: str | os.PathLike[str]) -> Trace | None:
    if not is_unsealed(path):
        return None
    from stepscope.record.read_back.reading import recover

    return recover(path)


FORMATS.register(
    Format(
        "a recording that was not sealed",
        (),
        _is_unsealed,
        loader("stepscope.record.read_back.reading:recover"),
    )
)
