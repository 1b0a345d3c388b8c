"""SQLite files of other tools, read defensively: a file cannot write, run code or hang.

A file is opened read-only and immutable. Only its own tables are read, never a view, a virtual
table or a generated column, and only by our statements: an authorizer refuses everything but
selecting.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np

from stepscope.errors import TraceReadError
from stepscope.formats.base.gathered import ABSENT
from stepscope.formats.base.registry import Progress
from stepscope.trace.model import Int64
from stepscope.trace.regular_file import open_regular

_ROWS_A_FETCH = 1 << 14
_LONGEST_VALUE_BYTES = 16 << 20  # texts and blobs: names and JSON are far shorter
_LONGEST_TEXT = 1 << 16  # longer names are cut
_MOST_TABLES = 5000
_STEPS_A_LOOK = 1 << 16  # instructions of SQLite's machine: about 10 ms
_PATIENCE_S = 10.0  # between two rows
_TABLE, _VIRTUAL = "table", "CREATE VIRTUAL"
_ALLOWED_FUNCTIONS = frozenset({"typeof", "substr", "count"})
_HIDDEN = 0  # of PRAGMA table_xinfo: an ordinary column


class SqliteFile:
    """The tables of an open file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """``sqlite_file`` opens the connection."""
        self.path = path
        self._connection = connection
        self._last_row = time.monotonic()
        self._tables: dict[str, tuple[str, ...]] = {}
        connection.set_progress_handler(self._is_stuck, _STEPS_A_LOOK)
        self._tables = dict(self._readable_tables())
        connection.set_authorizer(_authorized)

    @property
    def tables(self) -> Sequence[str]:
        return tuple(self._tables)

    def has(self, table: str, *columns: str) -> bool:
        """Tell whether the file has a table with these columns."""
        there = {name.lower() for name in self._tables.get(table, ())}
        return table in self._tables and there.issuperset(column.lower() for column in columns)

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a table; none if it is missing."""
        return self._tables.get(table, ())

    def count(self, table: str) -> int:
        self._last_row = time.monotonic()
        return int(self._connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0])

    def integers(self, table: str, columns: Sequence[str]) -> Int64:
        """Return columns of integers, a row each; ABSENT where a value or a column is missing."""
        if not self.has(table):
            return np.zeros((len(columns), 0), np.int64)
        wanted = ", ".join(
            _integer(name) if self.has(table, name) else str(ABSENT) for name in columns
        )
        parts = [
            np.array(rows, np.int64).reshape(-1, len(columns))
            for rows in self._rows(f"SELECT {wanted} FROM {quoted(table)}")
        ]
        if not parts:
            return np.zeros((len(columns), 0), np.int64)
        return np.ascontiguousarray(np.concatenate(parts).T)

    def texts(self, table: str, key: str, text: str) -> dict[int, str]:
        """Return texts by their integer keys."""
        return {number: values[0] for number, values in self.keyed_texts(table, key, (text,))}

    def keyed_texts(
        self, table: str, key: str, texts: Sequence[str]
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield an integer and texts of each row; missing texts are empty."""
        if not self.has(table):
            return
        number = _integer(key) if self.has(table, key) else str(ABSENT)
        wanted = ", ".join(_text(name) if self.has(table, name) else "''" for name in texts)
        for rows in self._rows(f"SELECT {number}, {wanted} FROM {quoted(table)}"):
            for row in rows:
                yield int(row[0]), tuple(map(str, row[1:]))

    def _rows(self, statement: str) -> Iterator[list[tuple[int | str, ...]]]:
        self._last_row = time.monotonic()
        cursor = self._connection.execute(statement)
        while rows := cursor.fetchmany(_ROWS_A_FETCH):
            yield rows
            self._last_row = time.monotonic()

    def _readable_tables(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = ? AND typeof(name) = 'text'"
            " AND NOT (typeof(sql) = 'text' AND sql LIKE ?) LIMIT ?",
            (_TABLE, f"{_VIRTUAL}%", _MOST_TABLES),
        )
        for (name,) in rows.fetchall():
            try:
                columns = self._connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
            except sqlite3.Error:  # only this table is damaged
                continue
            yield name, tuple(row[1] for row in columns if row[6] == _HIDDEN and row[1])

    def _is_stuck(self) -> bool:
        return time.monotonic() - self._last_row > _PATIENCE_S


@contextmanager
def sqlite_file(path: Path, progress: Progress | None = None) -> Generator[SqliteFile]:
    """Open a file for reading; errors of SQLite become a ``TraceReadError``."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
    except OSError as error:
        raise TraceReadError(path, f"cannot be opened: {error.strerror}") from None
    if progress is not None:
        progress(0, size)
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(address, uri=True)
        try:
            _restrict(connection)
            yield SqliteFile(path, connection)
        finally:
            connection.close()
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        way_out = "export it again; a file that is still being written has a -wal file beside it"
        if "interrupted" in str(error):
            way_out = f"it has a table that takes more than {_PATIENCE_S:.0f} s to read a row of"
        reason = " ".join(str(error).split())[:300]
        raise TraceReadError(path, f"is a damaged SQLite file: {reason}", way_out) from None
    if progress is not None:
        progress(size, size)


def quoted(name: str) -> str:
    """Quote a name for a statement."""
    return '"' + name.replace('"', '""') + '"'


def _integer(column: str) -> str:
    name = quoted(column)
    return f"CASE typeof({name}) WHEN 'integer' THEN {name} ELSE {ABSENT} END"


def _text(column: str) -> str:
    name = quoted(column)
    return f"CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {_LONGEST_TEXT}) ELSE '' END"


def _restrict(connection: sqlite3.Connection) -> None:
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        connection.setlimit(limit, most)
    for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")


def _authorized(
    action: int, first: str | None, second: str | None, _database: str | None, _source: str | None
) -> int:
    if action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second in _ALLOWED_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
