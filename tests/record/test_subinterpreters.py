"""Stepscope belongs to the main interpreter: a second one is refused, and does no harm."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import stepscope
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

INSIDE = '''
import sys
sys.path[:] = %r
try:
    import stepscope
except ImportError as error:
    print("refused:", error)
else:
    print("imported")
''' % (sys.path,)


def attempt():
    other = interpreters.create()
    interpreters.run_string(other, INSIDE)
    interpreters.destroy(other)


attempt()
with stepscope.profile(with_stack=True) as prof:
    with stepscope.record_function("around"):
        attempt()
with stepscope.profile() as again:
    with stepscope.record_function("after"):
        pass
print("around" in prof.trace.names(), "after" in again.trace.names(), flush=True)
"""


def test_a_second_interpreter_is_refused_while_the_first_records() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Python itself refuses some extensions in interpreters with a lock of their own, in its words.
    assert [line.startswith("refused:") for line in lines] == [True, True, False], lines
    assert lines[-1] == "True True"
    if sys.version_info < (3, 12):
        assert "main interpreter only" in lines[0]
