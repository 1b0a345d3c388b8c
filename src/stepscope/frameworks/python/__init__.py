"""The Python program itself: its calls, garbage collections, annotations and child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.record.source import SOURCES

if TYPE_CHECKING:
    from stepscope.record.source import Source


@SOURCES.register
def _annotations() -> type[Source]:
    from stepscope.frameworks.python.annotations import Annotations

    return Annotations


@SOURCES.register
def _gc_pauses() -> type[Source]:
    from stepscope.frameworks.python.gc_pauses import GcPauses

    return GcPauses


@SOURCES.register
def _calls() -> type[Source]:
    from stepscope.frameworks.python.calls import PythonCalls

    return PythonCalls


@SOURCES.register
def _child_processes() -> type[Source]:
    from stepscope.frameworks.python.workers import ChildProcesses

    return ChildProcesses
