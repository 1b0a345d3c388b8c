"""``stepscope attach``: loads Stepscope into a program that knows nothing of it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stepscope.cli.base.command import ExitCode, Parser
from stepscope.errors import StepscopeError

_PATIENCE_S = 10.0
_SCRIPT = """
import sys
sys.path.append({folder!r})
try:
    import stepscope
    from stepscope.record.limits import Last
    stepscope.serve({keep})
finally:
    sys.path.remove({folder!r})
"""


class Attach:
    """Load Stepscope into a Python program that is already running.

    From then on, `stepscope top`, `capture` and `ps` can reach it. Needs Python 3.14 or newer on
    both sides, the same release, and the right to debug the process.
    """

    name = "attach"

    def add_arguments(self, parser: Parser) -> None:
        parser.add_argument("pid", metavar="PID", type=int, help="the process")
        from stepscope.cli.base.options import last

        parser.add_argument(
            "--last",
            metavar="60s|200MB",
            type=last,
            help="also keep a recording of the most recent time or bytes",
        )

    def run(self, args: argparse.Namespace) -> ExitCode:
        from stepscope.live.client import living

        pid = args.pid
        if any(program["pid"] == pid for program in living()):
            print(f"process {pid} has Stepscope already: `stepscope top {pid}`")
            return 0
        remote_exec: Any = getattr(sys, "remote_exec", None)
        if remote_exec is None:
            release = ".".join(map(str, sys.version_info[:2]))
            raise StepscopeError(
                f"attach needs Python 3.14 or newer (this is {release}). Without it: start the "
                "program with `stepscope run`, call stepscope.serve() in it, or set STEPSCOPE=run "
                "for one that imports stepscope"
            )
        _load(remote_exec, pid, args.last)
        if not _answers(pid):
            raise StepscopeError(
                f"process {pid} did not load Stepscope within {_PATIENCE_S:.0f} s: it is not "
                "running Python code at the moment, or its own output says why"
            )
        print(f"attached: `stepscope top {pid}`, `stepscope capture {pid}`")
        return 0


def _load(remote_exec: Any, pid: int, keep: Any) -> None:
    folder = str(Path(__file__).resolve().parents[3])
    text = "" if keep is None else f"keep={keep!r}"
    handle, name = tempfile.mkstemp(suffix=".py", prefix="stepscope-attach-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_SCRIPT.format(folder=folder, keep=text))
    try:
        remote_exec(pid, name)
        _answers(pid)
    except (OSError, RuntimeError) as error:
        raise StepscopeError(f"cannot attach to process {pid}: {error}") from None
    finally:
        Path(name).unlink(missing_ok=True)


def _answers(pid: int) -> bool:
    from stepscope.live.client import living

    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if any(program["pid"] == pid for program in living()):
            return True
        time.sleep(0.1)
    return False
