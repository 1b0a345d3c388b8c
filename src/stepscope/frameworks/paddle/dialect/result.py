"""The result of a recording or a file, as paddle.profiler returns it: trees of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.formats import read_trace
from stepscope.frameworks.paddle.dialect.nodes import DeviceNode, HostNode, MemoryNode
from stepscope.frameworks.paddle.files.write_json import export_paddle_json
from stepscope.frameworks.paddle.files.write_pb import VERSION, export_paddle_pb, extra_info
from stepscope.frameworks.paddle.views.forest import Forest

if TYPE_CHECKING:
    import os

    from stepscope.trace.model import Trace

__all__ = ["DeviceNode", "HostNode", "MemoryNode", "ProfilerResult", "load_profiler_result"]

_EXPORTS = {"json": export_paddle_json, "pb": export_paddle_pb}


class ProfilerResult:
    """The events of a trace as Paddle's trees. Nodes are made when they are looked at."""

    def __init__(self, trace: Trace) -> None:
        """Take any trace; its events are given Paddle's types."""
        self.trace = trace
        self._forest = Forest(trace)

    def get_data(self) -> dict[int, HostNode]:
        """Return the topmost node of every thread, by the thread's id."""
        forest = self._forest
        tracks = forest.thread_tracks.tolist()
        return {forest.places[track][1]: HostNode(forest, -2 - track) for track in tracks}

    def get_extra_info(self) -> dict[str, str]:
        """Return the names of the threads, and how busy the machine was."""
        return extra_info(self.trace)

    def get_version(self) -> str:
        """Return the version of Paddle's file layout."""
        version = self.trace.info.user.get("schemaVersion")
        return version if isinstance(version, str) else VERSION

    def get_span_index(self) -> int:
        """Return which recording of the program it is."""
        span = str(self.trace.info.user.get("span_index", 0))
        return int(span) if span.isdecimal() else 0

    def save(self, file_name: str | os.PathLike[str], format: str = "json") -> None:
        """Write the trace as Paddle's Chrome JSON or as its protobuf."""
        if format not in _EXPORTS:
            raise ValueError(f"format is {format!r}; use 'json' or 'pb'")
        _EXPORTS[format](self.trace, file_name)


def load_profiler_result(filename: str | os.PathLike[str]) -> ProfilerResult:
    """Read a result that Paddle or Stepscope wrote, in any format.

    Paddle cannot load many of its own files; this can. What is not a trace raises a
    ``TraceReadError``; what can be read only in part warns.
    """
    return ProfilerResult(read_trace(filename))
