"""The process that outlives a program under ``stepscope run`` and seals its trace."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.after_run import Report
from stepscope.cli.program import EndedOutside
from stepscope.cli.ranks.launch import Job
from stepscope.cli.signals import Interrupts
from stepscope.errors import TraceReadWarning
from stepscope.notices import notify
from stepscope.record.stream.places import is_unsealed, own_folders
from stepscope.record.stream.processes import killed_for_memory
from stepscope.record.stream.recovering import recovered_from
from stepscope.record.stream.run import remove_unsealed
from stepscope.record.stream.sealing import only_sealer

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders
    from stepscope.trace.model import Trace


def main(words: list[str]) -> None:
    """Take the folders on disk and in memory, and how the program ended."""
    try:
        finish(*words)
    except Exception as error:
        where = next(filter(None, words), "")
        notify(
            f"the program ended abnormally, and its trace could not be sealed: {error}; "
            f"`stepscope summary {where}` tries again"
        )


def finish(disk: str, memory: str, told: str) -> None:
    """Seal what a program left, and print its answer: the watcher does this after its death."""
    unsealed = next((Path(each) for each in (disk, memory) if each and is_unsealed(each)), None)
    if unsealed is None:
        return
    with only_sealer(unsealed) as is_left:
        if is_left:
            _seal(own_folders(Path(disk), Path(memory) if memory else None), told)


def _seal(folders: StreamFolders, told: str) -> None:
    about = folders.about
    args = argparse.Namespace(
        **about["options"], json=Path(about["json"]) if about["json"] else None
    )
    shown = Path(about["shown"]).with_name(Path(about["output"]).name)
    sources = [Path(each) for each in about["sources"]]
    report = Report(about["program"], shown, sources, args, Job.of_told(about["job"]))
    report.is_for(Path(about["output"]), about["command"], replaces_json=about["replaces_json"])

    def build() -> Trace:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            return recovered_from(folders, Path(folders.disk))[0]

    class Left:
        """What is removed once the trace is saved."""

        @staticmethod
        def forget() -> None:
            folders.forget_memory()
            remove_unsealed(Path(folders.disk))

    ended = EndedOutside(how_it_ended_outside(told, folders))
    report.make(build, Interrupts(), ended, Left())
    sys.stderr.flush()


def how_it_ended_outside(told: str, folders: StreamFolders) -> str:
    """Say in a few words how a program ended, by what its watcher saw."""
    kind, _, number = told.partition(":")
    if kind == "exec":
        return f"by exec of {number.strip() or 'another program'}"
    if kind != "status" or not number.isdecimal():
        return "abnormally"
    status = int(number)
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        names = {each.value: each.name for each in signal.Signals}
        name = names.get(ended_by, f"signal {ended_by}")
        was = folders.about.get("killed_for_memory")
        now = killed_for_memory(os.getpid())
        if ended_by == signal.SIGKILL and was is not None and now is not None and now > was:
            return "by SIGKILL: the machine or container ran out of memory"
        return f"by {name}"
    return f"with exit code {os.WEXITSTATUS(status)}, immediately (os._exit)"


if __name__ == "__main__":
    main(sys.argv[1:])
