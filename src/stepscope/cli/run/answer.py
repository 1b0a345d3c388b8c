"""The process that reads what a program recorded, when it has ended: it saves, and shows it.

The supervisor of the run starts it, and ends only afterwards, as the program did.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.ranks.launch import Job
from stepscope.cli.run.report import Report
from stepscope.notices import notify
from stepscope.record.stream.family import Family
from stepscope.record.stream.notes import END, FACTS
from stepscope.record.stream.places import is_unsealed, own_folders
from stepscope.record.stream.processes import killed_for_memory
from stepscope.record.stream.sealing import only_sealer, remove_unsealed
from stepscope.trace.revision import note_program

if TYPE_CHECKING:
    from stepscope.record.stream.family import Member
    from stepscope.record.stream.places import StreamFolders


def main(words: list[str] | None = None) -> None:
    """Take the folders on disk and in memory, and how the program ended: ``exit:1``."""
    disk, memory, ending = words or sys.argv[1:]
    _encode_as_asked()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing half written is left
    try:
        finish(Path(disk), Path(memory) if memory else None, ending)
    except Exception as error:
        if os.environ.get("STEPSCOPE_DEBUG"):
            raise
        notify(
            f"what was recorded could not be saved: {type(error).__name__}: {error}; "
            f"`stepscope summary {disk}` tries again"
        )
    sys.stderr.flush()


def _encode_as_asked() -> None:
    """Write as PYTHONIOENCODING says: Python itself ignores it, as we run isolated."""
    encoding = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
    for stream in (sys.stdout, sys.stderr):
        if encoding and isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(LookupError):
                stream.reconfigure(encoding=encoding, errors=stream.errors)


def finish(disk: Path, memory: Path | None, ending: str) -> None:
    """Seal what a run has left, and show its answer."""
    unsealed = next((each for each in (disk, memory) if each and is_unsealed(each)), None)
    if unsealed is None:
        return
    with only_sealer(unsealed) as is_left:
        if is_left:
            _answer(own_folders(disk, memory), ending)


def _answer(folders: StreamFolders, ending: str) -> None:
    about = folders.about
    options = {**about["options"], "json": Path(about["json"]) if about["json"] else None}
    job = Job.of_told(about["job"])
    family = Family(folders, is_rank=job.place is not None)
    for line in [*folders.obstacles(), *family.unreadable]:
        notify(line)
    for member in family.members:
        for line in member.notices:
            notify(line)
    program = family.program()
    if program is None or FACTS not in program.left.meta:
        _say_that_nothing_was_recorded(ending)
        forget(folders)
        return
    if len(family.members) == 1 and not program.has_begun:
        notify(f"nothing was recorded: it ended {how_it_ended(ending, program, folders)}")
        forget(folders)
        return
    note_program(Path(about["sources"][0]))
    Report(about, argparse.Namespace(**options), job).make(
        family, program, how_it_ended(ending, program, folders), lambda: forget(folders)
    )


def forget(folders: StreamFolders) -> None:
    """Remove a stream: what it holds is saved, or there is nothing in it."""
    folders.forget_memory()
    remove_unsealed(Path(folders.disk))


def _say_that_nothing_was_recorded(ending: str) -> None:
    if ending.startswith("none:"):
        return  # the supervisor has said why it could not be started
    notify(
        "nothing was recorded: no Python of this version ran with the environment that was given "
        "to the command; where it is cleared (env -i, sudo, ssh, python -S), put `stepscope run` "
        "behind that: sudo stepscope run ..."
    )


def how_it_ended(ending: str, program: Member, folders: StreamFolders) -> str:
    """Say in a few words what ended a program early; empty for an end in order."""
    kind, _, number = ending.partition(":")
    if kind == "status" and number.isdecimal():  # of waitpid, by a watcher
        code = os.waitstatus_to_exitcode(int(number))
        kind, number = ("signal", str(-code)) if code < 0 else ("exit", str(code))
    end = program.left.meta.get(END)
    error = str(end.get("error", "")) if end is not None else ""
    if kind == "signal":
        return _by_signal(int(number), folders)
    if kind == "exec":
        return f"by exec of {number.strip() or 'another program'}"
    if error:
        return f"by {error}"
    if end is None and kind == "exit":
        return f"with exit code {number}, past Python's own end (os._exit, or an exec)"
    return f"with exit code {number}" if number != "0" else ""


def _by_signal(number: int, folders: StreamFolders) -> str:
    if number == signal.SIGINT:
        return "by Ctrl-C"
    names = {each.value: each.name for each in signal.Signals}
    name = names.get(number, f"signal {number}")
    was, now = folders.about.get("killed_for_memory"), killed_for_memory(os.getpid())
    if number == signal.SIGKILL and was is not None and now is not None and now > was:
        return "by SIGKILL: the machine or container ran out of memory"
    return f"by {name}"
