"""Reads a file's text in chunks on a thread of its own, and inflates gzip."""

from __future__ import annotations

import threading
import zlib
from contextlib import closing, contextmanager
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.errors import TraceReadError
from stepscope.trace.regular_file import free_memory_bytes, open_regular, own_memory_bytes
from stepscope.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path
    from types import ModuleType
    from typing import BinaryIO

MAGIC = b"\x1f\x8b"
_READ_BYTES = 64 << 10  # compressed; traces inflate to twenty times that
_CHUNK_BYTES = 1 << 20  # of text: fits a processor's cache
_GZIP_WINDOW = 31
_CHUNKS_A_LOOK = 16  # chunks between two checks of the memory
# Share of the free memory for the file: sorting and nesting needs as much again.
_MEMORY_SHARE = 0.5


class Chunk(NamedTuple):
    """A piece of text, and its end as an offset in the file."""

    text: bytes
    file_bytes: int
    damage: str = ""  # on the last chunk: a description of the file's damage, if any


def inflated_head(path: Path) -> bytes:
    """Return the first bytes of a file's text; the rest is not checked."""
    with _opened(path) as file, closing(_chunks(file)) as chunks:
        first = next(chunks, Chunk(b"", 0))
    if first.damage:
        raise TraceReadError(path, f"cannot be read: {first.damage}")
    return first.text


@contextmanager
def text_chunks(path: Path) -> Generator[Iterator[Chunk]]:
    """Yield the text of a file; the next chunks are prepared while one is being used.

    A few MB of gzip can inflate to more than any memory holds: TraceReadError is raised once the
    process has used most of what was free at the start.
    """
    with _opened(path) as file, closing(_chunks(file)) as chunks:
        ahead = _Ahead(chunks)
        try:
            yield _while_memory_lasts(path, iter(ahead))
        finally:
            ahead.stop()


def file_bytes(path: Path, progress: Callable[[int, int], None] | None) -> tuple[bytes, str]:
    """Return a whole file, inflated if it is gzip, and a description of any damage."""
    damage = ""
    parts = []
    with text_chunks(path) as chunks:
        size = path.stat().st_size
        for chunk in chunks:
            parts.append(chunk.text)
            damage = chunk.damage
            if progress is not None:
                progress(chunk.file_bytes, size)
    return b"".join(parts), damage


def _while_memory_lasts(path: Path, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    free = before = text_bytes = 0
    for number, chunk in enumerate(chunks):
        if number == 1:  # the check takes 2 ms, too long for small files
            free, before = free_memory_bytes(), own_memory_bytes()
        yield chunk
        text_bytes += len(chunk.text)
        if number == 0 or number % _CHUNKS_A_LOOK:
            continue
        taken = own_memory_bytes() - before
        if taken > free * _MEMORY_SHARE:
            raise TraceReadError(
                path,
                f"needs more memory than is free here: {size_text(taken)} of {size_text(free)} "
                f"were taken for its first {size_text(text_bytes)} of text",
                "read it on a machine with more, or record fewer steps",
            )


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    if path.is_dir():
        raise TraceReadError(path, "is a folder", "name the trace file inside of it")
    try:
        file = open_regular(path)
    except FileNotFoundError:
        raise TraceReadError(path, "does not exist", "check the name") from None
    except OSError as error:
        raise TraceReadError(path, f"cannot be opened: {error.strerror}") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise TraceReadError(path, f"cannot be read: {error.strerror}") from None


def _chunks(file: BinaryIO) -> Generator[Chunk]:
    start = file.read(len(MAGIC))
    if start == MAGIC:
        yield from _inflated(file, start)
        return
    text = start + file.read(_CHUNK_BYTES)
    while text:
        yield Chunk(text, file.tell())
        text = file.read(_CHUNK_BYTES)


def _fast_zlib() -> ModuleType:
    """Return isal's zlib, which is several times faster, if it is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    module: ModuleType = isal_zlib
    return module


def _inflated(file: BinaryIO, start: bytes) -> Generator[Chunk]:
    library = _fast_zlib()
    member: Any = library.decompressobj(_GZIP_WINDOW)
    packed = start
    while True:
        while packed:
            try:
                text = member.decompress(packed, _CHUNK_BYTES)
            except (library.error, zlib.error) as error:
                yield Chunk(b"", file.tell(), f"the gzip data is damaged ({error})")
                return
            if text:
                yield Chunk(text, file.tell())
            packed = member.unconsumed_tail
            if member.eof:
                packed = member.unused_data
                if not packed.startswith(MAGIC[: len(packed) or 1]):
                    break  # padding that tools append
                member = library.decompressobj(_GZIP_WINDOW)
        packed = file.read(_READ_BYTES)
        if not packed:
            break
        if member.eof:
            if not packed.startswith(MAGIC):
                return
            member = library.decompressobj(_GZIP_WINDOW)
    if not member.eof:
        yield Chunk(b"", file.tell(), "the gzip data ends early")


class _Ahead:
    """Runs an iterator in a thread, a few items ahead of its consumer."""

    def __init__(self, items: Iterator[Chunk], limit: int = 3) -> None:
        self._items = items
        self._ready: Queue[Chunk | BaseException | None] = Queue(limit)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stepscope-inflate", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Chunk]:
        while (item := self._ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def stop(self) -> None:
        """End the thread, even with items left."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(None)
        except BaseException as error:  # raised where the items are used
            self._put(error)

    def _put(self, item: Chunk | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._ready.put(item, timeout=0.1)
            except Full:
                continue
            return True
        return False
