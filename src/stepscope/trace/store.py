"""A trace on disk: a folder of Arrow IPC files with zstd, readable by Polars, pandas and DuckDB.

``slices.arrow`` and ``marks.arrow`` hold the events, ``integers.arrow`` their sparse integer
arguments in long form (``row_step`` and ``value_step`` summed up give row and value),
``tracks.arrow`` the timelines, and ``meta.json`` the ``TraceInfo``.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import StepscopeError, TraceReadError
from stepscope.trace.placing import make_private, move_new, staging_folder
from stepscope.trace.schema import Captured, Losses, TraceInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    Progress = Callable[[int, int], None]

SUFFIX = ".stepscope"
FORMAT = "stepscope trace"
VERSION = 1
_META = "meta.json"
_YOUNGER = ("samples", "held")  # tables that files of this version may lack: they are then empty


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
            make_private(written)  # it names the machine and the files of its user
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
    from stepscope.trace.tables import FILES, captured_of

    folder = Path(path)
    meta = _read_meta(folder)
    if meta["format"] != FORMAT:
        raise TraceReadError(folder, f"is not a saved trace: {_META} says {meta['format']!r}")
    if meta.get("version") != VERSION:
        raise TraceReadError(
            folder,
            f"has format version {meta.get('version')}, but this Stepscope reads version {VERSION}",
            "use the Stepscope that wrote it",
        )
    tables = {}
    for name in FILES:
        if name not in _YOUNGER or name in meta.get("rows", {}):
            tables[name] = _read_table(folder, name, meta)
        if progress is not None:
            progress(FILES.index(name) + 1, len(FILES))
    try:
        return captured_of(tables), _info(meta["info"])
    except Exception as error:
        # Whatever a file of the right shape and size but the wrong contents breaks.
        raise TraceReadError(folder, f"is damaged: {_one_line(error)}") from error


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
    old = written.with_name("old")  # removed with the folder that it is in
    target.rename(old)
    try:
        written.rename(target)
    except OSError:
        old.rename(target)
        raise


def _write(captured: Captured, info: TraceInfo, folder: Path, progress: Progress | None) -> None:
    import polars as pl

    from stepscope.trace.tables import tables_of

    tables = tables_of(captured)
    total = sum(table.height for table in tables.values())
    done = 0
    for name, table in tables.items():
        # The oldest level means the plain Arrow layouts, which every other reader knows.
        oldest = pl.CompatLevel.oldest()
        # Opened here: the path may hold bytes that are no text.
        with (folder / f"{name}.arrow").open("wb") as file:
            try:
                table.write_ipc(file, compression="zstd", compat_level=oldest)
            except pl.exceptions.PolarsError as error:
                raise OSError(f"{file.name}: {error}") from error
        done += table.height
        if progress is not None:
            progress(done, total)
    told = {f.name: getattr(info, f.name) for f in fields(TraceInfo)}
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "rows": {name: table.height for name, table in tables.items()},
        "info": {**told, "losses": asdict(info.losses)},
    }
    (folder / _META).write_text(json.dumps(meta, default=str) + "\n", encoding="utf-8")


def _read_meta(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise TraceReadError(folder, "does not exist")
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceReadError(folder, f"is not a saved trace: no readable {_META} in it") from error
    if not isinstance(meta, dict) or "format" not in meta:
        raise TraceReadError(folder, f"is not a saved trace: {_META} names no format")
    return meta


def _read_table(folder: Path, name: str, meta: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    file = folder / f"{name}.arrow"
    if not file.is_file():
        raise TraceReadError(folder, f"is not whole: {file.name} is missing")
    try:
        table = pl.read_ipc(file.read_bytes())
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = f"is not whole: {file.name} is truncated or damaged"
        raise TraceReadError(folder, reason) from error
    rows = meta.get("rows", {}).get(name)
    if table.height != rows:
        reason = f"is damaged: {file.name} has {table.height} rows, not {rows}"
        raise TraceReadError(folder, reason)
    return table


def _info(stored: dict[str, Any]) -> TraceInfo:
    known = {f.name for f in fields(TraceInfo)}
    pairs = {key: value for key, value in stored.items() if key in known}
    pairs["losses"] = Losses(**pairs["losses"])
    for name in ("devices", "code_folders", "libraries"):  # JSON has lists only
        pairs[name] = tuple(pairs.get(name, ()))
    return TraceInfo(**pairs)


def _one_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
