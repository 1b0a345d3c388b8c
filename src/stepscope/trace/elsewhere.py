"""Reads a stored table in another process, where its bytes are not those that were saved.

Polars believes what an Arrow file says of itself. A damaged length makes it ask for any amount of
memory, panic on a thread of its own, or read what is not its own; each ends the process that reads.
So each table has a checksum, and one that does not match it is read where only that process can
come to an end. What it has read it writes anew, and that is used.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

_CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import polars
data, out = sys.stdin.buffer.read(), sys.stdout.buffer
rows = polars.scan_ipc(data).select(polars.len()).collect().item()
out.write(b"%d\\n" % rows)
out.flush()
if rows <= int(sys.argv[2]):
    polars.read_ipc(data).write_ipc(out)
    out.flush()
"""
_SECONDS = 20.0  # for a small table, on a machine that others keep busy
_BYTES_A_SECOND = 5e6  # of a large one, at least


@dataclass(frozen=True)
class Trial:
    """What came of it."""

    rows: int | None  # that the file says it has, if it said so
    data: bytes | None  # the same table, whole


def checksum(data: bytes) -> int:
    """Return what tells apart the bytes that were saved from damaged ones."""
    with contextlib.suppress(ImportError):
        from isal import isal_zlib

        return int(isal_zlib.crc32(data))
    return zlib.crc32(data)


def read_elsewhere(data: bytes, most_rows: int) -> Trial:
    """Read a table in a process of its own, unless it has more rows than there is memory for."""
    import polars

    packages = str(Path(polars.__file__).parents[1])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _CODE, packages, str(most_rows)],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS + len(data) / _BYTES_A_SECOND,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial(None, None)
    except OSError:  # no interpreter to start: then it is read here, as it is
        return Trial(None, data)
    rows, _, again = done.stdout.partition(b"\n")
    return Trial(int(rows) if rows else None, again if done.returncode == 0 and again else None)
