"""Damages an SQLite file: by its schema and values, through SQLite itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from fuzzing.values import any_value, damaged_bytes, hostile_text

if TYPE_CHECKING:
    import random

_NUMBERS = (0, 1, -1, 7, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 1.5, 1e300, None, b"\xff\x00")
_HOSTILE = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start FROM n",
    "SELECT load_extension('/tmp/x')",
    "SELECT zeroblob(1000000000)",
    "SELECT * FROM sqlite_master a, sqlite_master b, sqlite_master c",
)


def damaged_database(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return a database with other values, columns or tables."""
    with closing(sqlite3.connect(":memory:")) as file:
        file.deserialize(data)
        file.text_factory = bytes
        tables = _names(file, "SELECT name FROM sqlite_master WHERE type = 'table'")
        done = []
        for _ in range(rng.choice((1, 1, 2, 4))):
            try:
                done.append(_change(file, rng.choice(tables), rng))
            except (sqlite3.Error, OverflowError, UnicodeError) as error:
                done.append(type(error).__name__)
        file.commit()
        changed = bytes(file.serialize())
    if rng.random() < 0.15:
        changed = damaged_bytes(changed, rng)
        done.append("bytes")
    return changed, ", ".join(done)


def _names(file: sqlite3.Connection, statement: str) -> list[str]:
    return [row[0].decode() for row in file.execute(statement)]


def _value(rng: random.Random) -> Any:
    if rng.random() < 0.7:
        return rng.choice(_NUMBERS)
    value = rng.choice((hostile_text(rng), any_value(rng, 0)))
    text = value if isinstance(value, str) else str(value)
    return text.encode("utf-8", "replace").decode()


def _change(file: sqlite3.Connection, table: str, rng: random.Random) -> str:
    columns = [row[1].decode() for row in file.execute(f'PRAGMA table_info("{table}")')]
    if not columns:
        return f"{table} is gone"
    column = rng.choice(columns)
    match rng.randrange(9):
        case 0:
            file.execute(f'DROP TABLE "{table}"')
            if rng.random() < 0.5:
                file.execute(f'CREATE VIEW "{table}" AS {rng.choice(_HOSTILE)}')
            return f"no {table}"
        case 1:
            file.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
            return f"no {table}.{column}"
        case 2:
            file.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{column}2"')
            return f"{table}.{column} renamed"
        case 3:
            file.execute(f'UPDATE "{table}" SET "{column}" = ?', (_value(rng),))
            return f"all {table}.{column}"
        case 4:
            marks = ", ".join("?" * len(columns))
            row = [_value(rng) for _ in columns]
            file.execute(f'INSERT INTO "{table}" VALUES ({marks})', row)
            return f"a row of {table}"
        case 5:
            other = rng.choice(columns)
            file.execute(f'UPDATE "{table}" SET "{column}" = "{other}"')
            return f"{table}.{column} is {other}"
        case 6:
            file.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}"')
            return f"{table} twice"
        case _:
            row = rng.randrange(1, 6)
            file.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (_value(rng), row))
            return f"{table}.{column}[{row}]"
