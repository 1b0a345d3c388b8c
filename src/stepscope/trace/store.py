"""A trace on disk: a folder of Arrow IPC files with zstd, readable by Polars, pandas and DuckDB.

``slices.arrow`` and ``marks.arrow`` hold the events, ``integers.arrow`` their sparse integer
arguments in long form (``row_step`` and ``value_step`` summed up give row and value),
``tracks.arrow`` the timelines, and ``meta.json`` the ``TraceInfo``.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.arguments import shown
from stepscope.errors import StepscopeError, TraceReadError, TraceReadWarning
from stepscope.trace.arrow_file import ArrowFileError, checked_size
from stepscope.trace.placing import make_private, move_instead, move_new, staging_folder
from stepscope.trace.regular_file import free_memory_bytes, read_regular
from stepscope.units import size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from stepscope.trace.schema import Captured, TraceInfo

    Progress = Callable[[int, int], None]

FORMAT = "stepscope trace"
VERSION = 1
_META = "meta.json"
_META_LIMIT_BYTES = 64 << 20
_COPIES = 2  # copies of a table while it is read: Polars' and ours
_SMALL_BYTES = 4 << 20  # smaller tables skip the check of the free memory, which takes a ms
_YOUNGER = ("samples", "held", "uses")  # tables that were added later: older files lack them


class SaveError(StepscopeError):
    """A trace could not be saved."""


def is_stored_trace(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a folder that ``save`` wrote, in any version."""
    try:
        return bool(_read_meta(Path(path))["format"] == FORMAT)
    except TraceReadError:
        return False


def save(
    captured: Captured,
    info: TraceInfo,
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write a trace as the folder ``path``, whole or not at all.

    An existing folder is replaced only with ``overwrite``, and only when it holds a trace.
    ``progress`` is called with the rows written so far and the rows in all.
    """
    target = Path(os.path.realpath(path))
    _check_target(target, overwrite)
    try:
        with staging_folder(target.parent) as beside:
            written = beside / "trace"
            written.mkdir()
            _write(captured, info, written, progress)
            make_private(written)  # the trace names the machine and the user's files
            _move(written, target, overwrite)
    except FileExistsError:
        raise SaveError(f"{target} exists; pass overwrite=True to replace it") from None
    except OSError as error:
        raise SaveError(f"{os.fspath(path)}: {error.strerror or error}") from error


def load(
    path: str | os.PathLike[str], progress: Progress | None = None
) -> tuple[Captured, TraceInfo]:
    """Read a folder that ``save`` wrote.

    ``progress`` is called with the tables read so far and the tables in all.
    """
    from stepscope.trace.stored_info import InfoDamage, info_of
    from stepscope.trace.tables import FILES, captured_of
    from stepscope.trace.validate import Damage

    folder = Path(path)
    meta = _read_meta(folder)
    if meta["format"] != FORMAT:
        version_text = shown(meta["format"])
        raise TraceReadError(folder, f"is not a saved trace: {_META} says {version_text}")
    version = meta.get("version")
    if version != VERSION:
        raise TraceReadError(
            folder,
            f"has format version {shown(version)}, but this Stepscope reads version {VERSION}",
            "use the Stepscope that wrote it",
        )
    rows = _rows(folder, meta)
    checksums = meta.get("checksums")
    known_checksums = checksums if isinstance(checksums, dict) else {}
    tables = {}
    for name in FILES:
        if name not in _YOUNGER or name in rows:
            tables[name] = _read_table(folder, name, rows.get(name), known_checksums.get(name))
        if progress is not None:
            progress(FILES.index(name) + 1, len(FILES))
    try:
        return captured_of(tables), info_of(meta.get("info"))
    except Damage as damage:
        raise TraceReadError(folder, f"is damaged: {damage}") from None
    except InfoDamage as damage:
        raise TraceReadError(folder, f"is damaged: {_META}: {damage}") from None


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise SaveError(f"{target}: the folder {target.parent} does not exist; create it")
    if not target.exists():
        return
    if not is_stored_trace(target):
        raise SaveError(f"{target} exists and is not a saved trace; choose another name")
    if not overwrite:
        raise SaveError(f"{target} exists; pass overwrite=True to replace it")


def _move(written: Path, target: Path, overwrite: bool) -> None:
    if not overwrite or not target.exists():
        move_new(written, target)
        return
    move_instead(written, target)


def _write(captured: Captured, info: TraceInfo, folder: Path, progress: Progress | None) -> None:
    import polars as pl

    from stepscope.trace.shorten import with_short_texts
    from stepscope.trace.stored_info import stored_info
    from stepscope.trace.tables import tables_of

    tables = tables_of(with_short_texts(captured))
    total = sum(table.height for table in tables.values())
    done = 0
    checksums: dict[str, int] = {}
    for name, table in tables.items():
        # The oldest level has plain Arrow layouts, which all readers support.
        oldest = pl.CompatLevel.oldest()
        # Opened here: the path may hold bytes that are no text.
        with (folder / f"{name}.arrow").open("wb") as file:
            try:
                table.write_ipc(file, compression="zstd", compat_level=oldest)
            except pl.exceptions.PolarsError as error:
                raise OSError(f"{file.name}: {error}") from error
        checksums[name] = zlib.crc32((folder / f"{name}.arrow").read_bytes())
        done += table.height
        if progress is not None:
            progress(done, total)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "rows": {name: table.height for name, table in tables.items()},
        "checksums": checksums,
        "info": stored_info(info),
    }
    (folder / _META).write_text(_meta_text(meta) + "\n", encoding="utf-8")


def _meta_text(meta: dict[str, Any]) -> str:
    """Return the text of ``meta.json``, without a foreign file's largest keys if need be.

    A longer file could be written, but not read.
    """
    text = json.dumps(meta, default=str)
    info: dict[str, Any] = meta["info"]
    user = {key: json.dumps(value, default=str) for key, value in info["user"].items()}
    left_out = 0
    while len(text) >= _META_LIMIT_BYTES and user:
        del user[max(user, key=lambda key: len(user[key]))]
        left_out += 1
        info["user"] = {key: value for key, value in info["user"].items() if key in user}
        info["anomalies"] = {**info["anomalies"], "large metadata left out": left_out}
        text = json.dumps(meta, default=str)
    return text


def _read_meta(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise TraceReadError(folder, "does not exist")
    try:
        meta = json.loads(read_regular(folder / _META, _META_LIMIT_BYTES, follow_links=False))
    except OSError as error:
        cause = f"{_META} cannot be read: {error.strerror}"
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            cause = f"no readable {_META} in it"
        raise TraceReadError(folder, f"is not a saved trace: {cause}") from None
    except (ValueError, RecursionError):
        # JSON of other words, of other bytes, with numbers or nesting beyond any use.
        raise TraceReadError(folder, f"is not a saved trace: no readable {_META} in it") from None
    if not isinstance(meta, dict) or "format" not in meta:
        raise TraceReadError(folder, f"is not a saved trace: {_META} names no format")
    return meta


def _rows(folder: Path, meta: dict[str, Any]) -> dict[str, int]:
    """Return the number of rows that each table should have."""
    rows = meta.get("rows")
    if not isinstance(rows, dict) or not all(type(n) is int and n >= 0 for n in rows.values()):
        raise TraceReadError(folder, f"is damaged: {_META}: 'rows' has no numbers of rows")
    return rows


def _read_table(folder: Path, name: str, rows: int | None, checksum: int | None) -> pl.DataFrame:
    """Read a table; ``checksum`` is the one with which it was saved, if any."""
    import polars as pl

    file = folder / f"{name}.arrow"
    try:
        is_small = file.lstat().st_size <= _SMALL_BYTES
        limit_bytes = _SMALL_BYTES if is_small else free_memory_bytes()
        data = read_regular(file, limit_bytes, follow_links=False)
    except FileNotFoundError:
        raise TraceReadError(folder, f"is incomplete: {file.name} is missing") from None
    except OSError as error:
        raise TraceReadError(folder, f"{file.name} cannot be read: {error.strerror}") from None
    try:
        size = checked_size(data)
        if size.rows != rows:
            reason = f"is damaged: {file.name} has {size.rows} rows, not {rows}"
            raise TraceReadError(folder, reason)
        _check_memory(folder, name, size.bytes)
        table = pl.read_ipc(data)
    except (
        *(ArrowFileError, OSError, OverflowError),
        *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    ) as error:
        raise _damaged(folder, name) from error
    if table.height != rows:
        raise _damaged(folder, name)
    if checksum is not None and zlib.crc32(data) != checksum:
        text = f"{folder}: {file.name} was changed since it was saved"
        warnings.warn(text, TraceReadWarning, stacklevel=2)
    return table


def _damaged(folder: Path, name: str) -> TraceReadError:
    return TraceReadError(folder, f"is incomplete: {name}.arrow is truncated or damaged")


def _check_memory(folder: Path, name: str, needed_bytes: int) -> None:
    """Refuse the memory that a few bytes of zstd can ask for, before the kernel kills us."""
    if needed_bytes <= _SMALL_BYTES:
        return
    free = free_memory_bytes()
    if needed_bytes * _COPIES > free:
        raise TraceReadError(
            folder,
            f"needs about {size_text(needed_bytes * _COPIES)} of memory for {name}.arrow, "
            f"but {size_text(free)} are free",
            "read it on a machine with more",
        )
