"""File formats: each is read and written by one module, and found through one registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.formats.registry import FORMATS, Format, export_trace, read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.formats.registry import Reader, Writer

__all__ = ["FORMATS", "Format", "export_trace", "read_trace"]


def _is_folder(path: Path, _head: bytes) -> bool:
    return path.is_dir() and not (path / "stream.json").is_file()  # that is not sealed yet


def _folder_reader() -> Reader:
    from stepscope.trace.model import Trace

    return Trace.load


def _folder_writer() -> Writer:
    from stepscope.trace.model import save_trace

    return save_trace


def _is_json(_path: Path, head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["}


def _chrome_reader() -> Reader:
    from stepscope.formats.chrome.read import read_chrome

    return read_chrome


def _chrome_writer() -> Writer:
    from stepscope.formats.chrome.write import export_chrome

    return export_chrome


def _is_perfetto(_path: Path, head: bytes) -> bool:
    from stepscope.formats.perfetto.read import is_perfetto

    return head[:1] == b"\x0a" and is_perfetto(head)


def _perfetto_reader() -> Reader:
    from stepscope.formats.perfetto.read import read_perfetto

    return read_perfetto


def _perfetto_writer() -> Writer:
    from stepscope.formats.perfetto.write import export_perfetto

    return export_perfetto


def _stacks_writer() -> Writer:
    from stepscope.formats.stacks import export_folded

    return export_folded


def _speedscope_writer() -> Writer:
    from stepscope.formats.speedscope import export_speedscope

    return export_speedscope


def _is_pickle(_path: Path, head: bytes) -> bool:
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def _snapshot_reader() -> Reader:
    from stepscope.formats.snapshot import read_snapshot

    return read_snapshot


def _is_xplane(_path: Path, head: bytes) -> bool:
    from stepscope.formats.xplane import is_xplane

    return is_xplane(head)


def _xplane_reader() -> Reader:
    from stepscope.formats.xplane import read_xplane

    return read_xplane


def _is_ncu(_path: Path, head: bytes) -> bool:
    from stepscope.formats.nsight.compute import is_ncu

    return is_ncu(head)


def _ncu_reader() -> Reader:
    from stepscope.formats.nsight.compute import read_ncu

    return read_ncu


def _is_sqlite(_path: Path, head: bytes) -> bool:
    return head.startswith(b"SQLite format 3\x00")


def _sqlite_reader() -> Reader:
    from stepscope.formats.databases import read_database

    return read_database


def _pprof_writer() -> Writer:
    from stepscope.formats.pprof import export_pprof

    return export_pprof


def _firefox_writer() -> Writer:
    from stepscope.formats.firefox import export_firefox

    return export_firefox


def _spans_writer() -> Writer:
    from stepscope.formats.spans import export_spans

    return export_spans


def _parquet_writer() -> Writer:
    from stepscope.formats.tabular import export_parquet

    return export_parquet


def _csv_writer() -> Writer:
    from stepscope.formats.tabular import export_csv

    return export_csv


FORMATS.register(
    Format("Chrome trace", (".json", ".json.gz"), _is_json, _chrome_reader, _chrome_writer)
)
FORMATS.register(
    Format("Stepscope trace", (".stepscope",), _is_folder, _folder_reader, _folder_writer)
)
FORMATS.register(
    Format(
        "folded stacks", (".stacks", ".folded", ".stacks.gz", ".folded.gz"), writer=_stacks_writer
    )
)
FORMATS.register(
    Format("speedscope", (".speedscope.json", ".speedscope.json.gz"), writer=_speedscope_writer)
)
FORMATS.register(
    Format(
        "Nsight Systems' or ROCm's SQLite",
        (".sqlite", ".db", ".rpd"),
        _is_sqlite,
        _sqlite_reader,
    )
)
FORMATS.register(
    Format("PyTorch memory snapshot", (".pickle", ".pkl"), _is_pickle, _snapshot_reader)
)
FORMATS.register(
    Format("XPlane of JAX and XLA", (".xplane.pb", ".xplane.pb.gz"), _is_xplane, _xplane_reader)
)
FORMATS.register(Format("Nsight Compute's CSV", (".csv",), _is_ncu, _ncu_reader))
FORMATS.register(
    Format(
        "Perfetto trace",
        (".pftrace", ".pftrace.gz", ".perfetto-trace"),
        _is_perfetto,
        _perfetto_reader,
        _perfetto_writer,
    )
)
FORMATS.register(Format("pprof", (".pprof", ".pprof.gz"), writer=_pprof_writer))
FORMATS.register(
    Format("Firefox Profiler", (".firefox.json", ".firefox.json.gz"), writer=_firefox_writer)
)
FORMATS.register(
    Format("OpenTelemetry spans", (".otlp.json", ".otlp.json.gz"), writer=_spans_writer)
)
FORMATS.register(Format("Parquet", (".parquet",), writer=_parquet_writer))
FORMATS.register(Format("CSV", (".csv", ".csv.gz"), writer=_csv_writer))
