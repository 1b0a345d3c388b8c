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


def _stacks_writer() -> Writer:
    from stepscope.formats.stacks import export_folded

    return export_folded


def _speedscope_writer() -> Writer:
    from stepscope.formats.speedscope import export_speedscope

    return export_speedscope


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
