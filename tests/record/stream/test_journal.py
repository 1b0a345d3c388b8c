"""What a source notes as it goes is in the stream, in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inside import run_inside
from stepscope.record.journal import bytes_of, entries, fits, is_whole, pieces
from stepscope.record.stream.left_behind import LeftBehind
from stepscope.record.stream.places import StreamFolders
from stepscope.record.stream.processes import ProcessId

if TYPE_CHECKING:
    from pathlib import Path

_NOTES = """
from stepscope.record.journal import Journal
all_of_them, newest = Journal("all", is_on=True), Journal("newest", is_on=True, most=4)
for number in range(12):
    for journal in (all_of_them, newest, Journal("none", is_on=False)):
        journal.add({"number": number})
"""


def test_a_full_journal_keeps_its_newest_entries(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = run_inside(run, ["-c", _NOTES])
    assert done.code == 0, done.err
    folders = StreamFolders(str(run / "disk"), str(run), ProcessId.own())
    rest = LeftBehind.of(folders, str(done.pid))
    assert [entry["number"] for entry in entries(rest, "all")] == list(range(12))
    assert sorted(entry["number"] for entry in entries(rest, "newest")) == [8, 9, 10, 11]
    assert entries(rest, "none") == []


def test_bytes_are_kept_in_pieces() -> None:
    data = bytes(range(256)) * 10_000
    assert b"".join(map(bytes_of, pieces(data))) == data
    assert list(pieces(b"")) == [""]
    hostile: list[Any] = ["=", "\xe9", 3, None]
    assert [bytes_of(item) for item in hostile] == [b""] * 4


def test_a_row_has_the_right_types_or_is_left_out() -> None:
    assert fits([1, "a", True], int, str, bool)
    assert not fits([True, "a", 1], int, str, bool)
    assert not fits([1, "a"], int, str, bool)
    assert not fits({"a": 1}, str)
    assert not fits([1 << 62], int)
    assert not is_whole(1.0)
