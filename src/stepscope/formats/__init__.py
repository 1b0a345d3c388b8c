"""File formats: each is read and written by one module, and found through one registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.formats.base.registry import FORMATS, Format, export_trace, read_trace
from stepscope.lazy import loader
from stepscope.trace.placing import TRACE_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FORMATS", "Format", "export_trace", "read_trace"]


def _is_folder(path: Path, _head: bytes) -> bool:
    is_unsealed = (path / "stream.json").is_file()
    return path.is_dir() and not is_unsealed


def _is_json(_path: Path, head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["}


def _is_perfetto(_path: Path, head: bytes) -> bool:
    from stepscope.formats.perfetto.read import is_perfetto

    return head[:1] == b"\x0a" and is_perfetto(head)


def _is_pickle(_path: Path, head: bytes) -> bool:
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def _is_xplane(_path: Path, head: bytes) -> bool:
    from stepscope.formats.xplane import is_xplane

    return is_xplane(head)


def _is_ncu(_path: Path, head: bytes) -> bool:
    from stepscope.formats.nsight.compute import is_ncu

    return is_ncu(head)


def _is_sqlite(_path: Path, head: bytes) -> bool:
    return head.startswith(b"SQLite format 3\x00")


FORMATS.register(
    Format(
        "Chrome trace",
        (".json", ".json.gz"),
        _is_json,
        loader("stepscope.formats.chrome.read:read_chrome"),
        loader("stepscope.formats.chrome.write:export_chrome"),
    )
)
FORMATS.register(
    Format(
        "Stepscope trace",
        (TRACE_SUFFIX,),
        _is_folder,
        loader("stepscope.trace.model:Trace.load"),
        loader("stepscope.trace.model:save_trace"),
    )
)
FORMATS.register(
    Format(
        "folded stacks",
        (".stacks", ".folded", ".stacks.gz", ".folded.gz"),
        writer=loader("stepscope.formats.stacks:export_folded"),
    )
)
FORMATS.register(
    Format(
        "speedscope",
        (".speedscope.json", ".speedscope.json.gz"),
        writer=loader("stepscope.formats.speedscope:export_speedscope"),
    )
)
FORMATS.register(
    Format(
        "Nsight Systems' or ROCm's SQLite",
        (".sqlite", ".db", ".rpd"),
        _is_sqlite,
        loader("stepscope.formats.databases:read_database"),
    )
)
FORMATS.register(
    Format(
        "PyTorch memory snapshot",
        (".pickle", ".pkl"),
        _is_pickle,
        loader("stepscope.formats.snapshot:read_snapshot"),
    )
)
FORMATS.register(
    Format(
        "XPlane of JAX and XLA",
        (".xplane.pb", ".xplane.pb.gz"),
        _is_xplane,
        loader("stepscope.formats.xplane:read_xplane"),
    )
)
FORMATS.register(
    Format(
        "Nsight Compute's CSV",
        (".csv",),
        _is_ncu,
        loader("stepscope.formats.nsight.compute:read_ncu"),
    )
)
FORMATS.register(
    Format(
        "Perfetto trace",
        (".pftrace", ".pftrace.gz", ".perfetto-trace"),
        _is_perfetto,
        loader("stepscope.formats.perfetto.read:read_perfetto"),
        loader("stepscope.formats.perfetto.write:export_perfetto"),
    )
)
FORMATS.register(
    Format("pprof", (".pprof", ".pprof.gz"), writer=loader("stepscope.formats.pprof:export_pprof"))
)
FORMATS.register(
    Format(
        "Firefox Profiler",
        (".firefox.json", ".firefox.json.gz"),
        writer=loader("stepscope.formats.firefox:export_firefox"),
    )
)
FORMATS.register(
    Format(
        "OpenTelemetry spans",
        (".otlp.json", ".otlp.json.gz"),
        writer=loader("stepscope.formats.spans:export_spans"),
    )
)
FORMATS.register(
    Format("Parquet", (".parquet",), writer=loader("stepscope.formats.tabular:export_parquet"))
)
FORMATS.register(
    Format("CSV", (".csv", ".csv.gz"), writer=loader("stepscope.formats.tabular:export_csv"))
)
