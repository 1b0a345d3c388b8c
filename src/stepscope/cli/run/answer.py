"""The process that reads what a program recorded, when it has ended: it saves, and shows it.

The supervisor of the run starts it, and ends only afterwards, as the program did.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import sys
from pathlib import Path

from stepscope import _native
from stepscope.cli.base.printing import print_title, show_command, show_facts
from stepscope.cli.base.streams import own_stream, say, writing_to
from stepscope.cli.run.ending import ending_facts, how_it_ended
from stepscope.notices import notify
from stepscope.record.stream.notes import END, FACTS, NOTICES, SOURCES
from stepscope.record.stream.places import (
    StreamFolders,
    is_unsealed,
    only_sealer,
    own_folders,
    remove_unsealed,
)
from stepscope.units import duration_text

# A sampler sees a shorter program only a few times: shares of its time would be wrong.
_TOO_SHORT_NS = 50_000_000
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def main(words: list[str] | None = None) -> None:
    """Take the folders on disk and in memory, and how the program ended: ``exit:1``."""
    disk, memory, ending = words or sys.argv[1:]
    _encode_as_asked()
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
    unsealed = next((folder for folder in (disk, memory) if folder and is_unsealed(folder)), None)
    if unsealed is None:
        return
    with only_sealer(unsealed) as is_left:
        if is_left:
            folders = own_folders(disk, memory)
            if not _is_answered_at_once(folders, ending):
                _answer(folders, ending)


def _is_answered_at_once(folders: StreamFolders, ending: str) -> bool:
    """Answer for a program that ended without an event, before it could be sampled.

    Building a trace takes longer to import than such a program takes to run. So the stream stays as
    it is, unless a file was asked for.
    """
    about, names = folders.about, folders.processes()
    is_asked = about["is_output_named"] or about["json"] or about["options"]["report"]
    if is_asked or about["job"]["place"] or len(names) != 1 or folders.obstacles():
        return False
    memory, segments = folders.memory_of(names[0]), folders.segments_of(names[0])
    notes = _native.RecoveredStream(str(memory), str(segments), 0).meta()
    end = json.loads(notes.get(END, "{}"))
    if NOTICES in notes or SOURCES in notes or end.get("events", 1) or end["ns"] > _TOO_SHORT_NS:
        return False
    how = how_it_ended(ending, end, folders)
    if not end["found_program"]:
        notify(f"nothing was recorded: it ended {how}")
        forget(folders)
        return True
    try:
        folders.move_to_disk()
    except OSError:
        return False
    if about["options"]["quiet"]:
        return True
    path = Path(folders.disk).name
    if about["options"]["no_summary"]:
        notify(f"saved {path}")
        return True
    with writing_to(own_stream()):
        say()
        print_title(f"{about['program']}: Nothing that takes time was recorded.")
        ended = [*ending_facts(how), ("recorded", f"no event in {duration_text(end['ns'])}")]
        show_facts([*ended, ("saved", path)])
        show_command("next", f"{about['command']} summary {shlex.quote(path)}")
    return True


def _interrupt(_number: int, _frame: object) -> None:
    """End in order, so that nothing half written stays; what comes next would disturb that."""
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _take_interrupts() -> None:
    """Take the signals that have waited since this process was started.

    In the middle of an import, libraries turn a KeyboardInterrupt into other errors.
    """
    import numpy as np
    import polars as pl

    pl.Series(np.zeros(1, np.uint32))  # it looks for NumPy's interface now
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)


def _answer(folders: StreamFolders, ending: str) -> None:
    from argparse import Namespace

    from stepscope.cli.base.rank_launch import Job
    from stepscope.cli.run.report import Report
    from stepscope.record.read_back.family import Family
    from stepscope.trace.revision import note_program

    _take_interrupts()
    about = folders.about
    options = {**about["options"], "json": Path(about["json"]) if about["json"] else None}
    job = Job.from_json(about["job"])
    family = Family(folders, is_rank=job.place is not None)
    for line in [*folders.obstacles(), *family.unreadable]:
        notify(line)
    for member in family.members:
        for line in member.notices:
            notify(line)
    program = family.program()
    if program is None or FACTS not in program.remains.meta:
        _say_that_nothing_was_recorded(ending)
        forget(folders)
        return
    how = how_it_ended(ending, program.remains.meta.get(END), folders)
    if len(family.members) == 1 and not program.has_begun:
        notify(f"nothing was recorded: it ended {how}")
        forget(folders)
        return
    note_program(Path(about["sources"][0]))
    Report(about, Namespace(**options), job).make(family, program, how, lambda: forget(folders))


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
