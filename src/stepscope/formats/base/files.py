"""Writes an output file atomically: complete, or not at all."""

from __future__ import annotations

import os
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepscope.errors import StepscopeError
from stepscope.trace.placing import OWNER_ONLY, unfinished_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    Bytes = bytes | memoryview

_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # asks zlib and isal for a gzip header and trailer


class ExportError(StepscopeError):
    """A file could not be written."""


class Sink(Protocol):
    """Where an exporter's bytes go."""

    def write(self, data: Bytes, /) -> object:
        """Take the next bytes."""


class _Compressor(Protocol):
    def compress(self, data: Bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _GzipSink:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._compressor = _fast_gzip()

    def write(self, data: Bytes, /) -> object:
        return self._file.write(self._compressor.compress(data))

    def finish(self) -> None:
        self._file.write(self._compressor.flush())


def _fast_gzip() -> _Compressor:
    try:
        from isal import isal_zlib
    except ImportError:  # no wheel for this platform
        return zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
    compressor: _Compressor = isal_zlib.compressobj(
        1, isal_zlib.DEFLATED, _GZIP_WINDOW, isal_zlib.DEF_MEM_LEVEL
    )
    return compressor


def gzipped(data: bytes) -> bytes:
    """Return the data compressed, with speed over size."""
    compressor = _fast_gzip()
    return compressor.compress(data) + compressor.flush()


@contextmanager
def output_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Sink]:
    """Open ``path`` for writing, compressed when its name ends in ``.gz``.

    The bytes go to a new file beside the target, which is renamed to the target when the block
    succeeds and removed when it fails. Anything but a regular file (``/dev/stdout``) is written
    directly, and so is an empty file: somebody may hold it open to read what comes. A ``private``
    file is readable by its owner alone.
    """
    target = Path(os.path.realpath(path))
    compressed = os.fspath(path).lower().endswith(".gz")
    if target.is_dir():
        raise ExportError(f"{os.fspath(path)} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise ExportError(
            f"{os.fspath(path)}: the folder {target.parent} does not exist; create it"
        )
    in_place = target.exists() and (not target.is_file() or not target.stat().st_size)
    written = target if in_place else target.with_name(unfinished_name())
    try:
        with written.open("wb" if in_place else "xb") as file:
            if private and not in_place:
                os.fchmod(file.fileno(), OWNER_ONLY)
            yield from _into(file, compressed)
        if not in_place:
            written.replace(target)
    except OSError as error:
        raise ExportError(f"{os.fspath(path)}: {error.strerror or error}") from error
    finally:
        if not in_place:
            with suppress(OSError):  # the earlier error is raised
                written.unlink(missing_ok=True)


def _into(file: BinaryIO, compressed: bool) -> Iterator[Sink]:
    if not compressed:
        yield file
        return
    sink = _GzipSink(file)
    yield sink
    sink.finish()
