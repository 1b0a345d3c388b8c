"""How a program ended, in words."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepscope.record.stream.processes import killed_for_memory

if TYPE_CHECKING:
    from stepscope.record.stream.places import StreamFolders


def how_it_ended(ending: str, end: Mapping[str, Any] | None, folders: StreamFolders) -> str:
    """Say in a few words what ended a program early; empty for an end in order.

    ``end`` is what the program noted at its end, if it came to that.
    """
    kind, _, number = ending.partition(":")
    if kind == "status" and number.isdecimal():  # of waitpid, by a watcher
        code = os.waitstatus_to_exitcode(int(number))
        kind, number = ("signal", str(-code)) if code < 0 else ("exit", str(code))
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


def ending_facts(how: str) -> list[tuple[str, str]]:
    """Return the line that says what ended a program early; none for an end in order."""
    return [("ended", how)] if how else []


def _by_signal(number: int, folders: StreamFolders) -> str:
    if number == signal.SIGINT:
        return "by Ctrl-C"
    names = {member.value: member.name for member in signal.Signals}
    name = names.get(number, f"signal {number}")
    was, now = folders.about.get("killed_for_memory"), killed_for_memory(os.getpid())
    if number == signal.SIGKILL and was is not None and now is not None and now > was:
        return "by SIGKILL: the machine or container ran out of memory"
    return f"by {name}"
