"""A source: what the program prints, as ranges around its calls of print."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from stepscope import record_function
from stepscope.record.options import Option
from stepscope.record.patching import Patches
from stepscope.record.source import SOURCES, Source

if TYPE_CHECKING:
    from stepscope import MemoryLimit
    from stepscope.record.options import RecordOptions

PRINTS = Option("prints", False, "--prints", "record calls of print, too")
PRINT_NAME = Option("print_name", "print", "--print-name", "what calls of print are called")


class Prints(Source):
    """A range around every print."""

    name = "prints"
    when = PRINTS
    options = (PRINT_NAME,)

    def __init__(self, name: str) -> None:
        self._name = name
        self._patches = Patches(self._wrap)

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(options[PRINT_NAME])

    def start(self) -> None:
        self._patches.acquire()

    def stop(self) -> None:
        self._patches.release()

    def describe(self) -> str:
        return f"calls of print as {self._name}"

    def _wrap(self, patches: Patches) -> None:
        patches.wrap(builtins, "print", record_function(self._name))


SOURCES.register(lambda: [Prints])
