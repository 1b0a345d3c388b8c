"""A stream that grows is followed from outside: nothing that it holds is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recording import run_python
from stepscope.record.stream.processes import ProcessId

if TYPE_CHECKING:
    from pathlib import Path

FOLLOWING = """
import sys
from stepscope import _native, record_function

memory, disk, ring_bytes = sys.argv[1], sys.argv[1] + ".segments", int(sys.argv[2])
_native.start_stream(memory, disk, 1 << 40, ring_bytes)
window = _native.open_window(ring_bytes, bool(ring_bytes), bool(ring_bytes))
follower = _native.StreamFollower(memory, disk, ["step"])
found = 0
for look in range(200):
    for _ in range(10):
        with record_function("step"):
            pass
        for _ in range(100):
            with record_function("other"):
                pass
    _native.note_value_in_stream(f"note {look}", {"look": look})
    found += len(follower.new_ranges())
    assert f"note {look}" in follower.notes, look
_native.stop_stream()
follower.new_ranges()
print(found, len(follower.notes), follower.is_closed)
"""


def test_all_ranges_and_notes_are_found_as_the_stream_grows(tmp_path: Path) -> None:
    for ring_bytes in (0, 1 << 20):
        folder = tmp_path / str(ring_bytes)
        folder.mkdir()
        done = run_python(FOLLOWING, str(folder), str(ring_bytes))
        assert (done.stdout, done.stderr) == ("2000 200 True\n", "")


def test_a_process_that_is_to_become_another_program_is_alive() -> None:
    own = ProcessId.own()

    assert own.is_alive()
    assert own._replace(image=0).is_alive()  # nobody knows yet where its stack begins
    assert not own._replace(image=1).is_alive()
