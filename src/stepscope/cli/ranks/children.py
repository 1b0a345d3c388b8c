"""How the processes that a program starts are told of the job, however they are started.

Processes of multiprocessing carry it with them, or are forked; other programs find it in their
environment, where Python looks for ``sitecustomize`` on its way to the first line.
"""

from __future__ import annotations

import inspect
import multiprocessing.process
import os
import subprocess
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Protocol

from stepscope._native import shielded
from stepscope.cli.ranks.order import START_FOLDER, VARIABLE
from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

    from stepscope.cli.ranks.order import Order

_ATTRIBUTE = "_stepscope_job"
_ticket: Ticket | None = None  # that this process passes on


class Ticket(Protocol):
    """What travels with a process that is started; picklable, it arrives when it is unpickled."""

    order: Order

    def arrive(self) -> None:
        """Make the process that it has come to a part of the job."""


def pass_on(ticket: Ticket) -> None:
    """Tell every process that is started from now on."""
    global _ticket  # noqa: PLW0603 - a process is in one job
    _ticket = ticket
    _patches.acquire()


def pass_on_no_more() -> None:
    """Leave the children of a rank alone: they are its workers."""
    global _ticket  # noqa: PLW0603
    if _ticket is None:
        return
    _ticket = None
    _patches.release()
    leave_environment()


def leave_environment() -> None:
    """Take out of this process's environment what was put in for its Python."""
    if os.environ.pop(VARIABLE, None) is None:
        return
    others = os.environ.get("PYTHONPATH", "").split(":")
    rest = ":".join(each for each in others if each != START_FOLDER)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        os.environ.pop("PYTHONPATH", None)


def _forked() -> None:
    """Join the job in a forked child; nothing of the parent's records here any more."""
    global _ticket
    ticket, _ticket = _ticket, None
    if ticket is not None:
        ticket.arrive()


def _patch(patches: Patches) -> None:
    patches.wrap(multiprocessing.process.BaseProcess, "start", _with_ticket)
    plain = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
    at = list(plain.parameters).index("env")
    patches.wrap(subprocess.Popen, "_execute_child", partial(_with_environment, at))


def _with_ticket(plain: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
    @wraps(plain)
    def start(process: BaseProcess) -> None:
        if _ticket is not None:
            vars(process)[_ATTRIBUTE] = _ticket
        try:
            plain(process)
        finally:
            vars(process).pop(_ATTRIBUTE, None)

    return start


def _with_environment(at: int, plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def execute(*args: Any) -> Any:
        if _ticket is None or len(args) <= at:
            return plain(*args)
        env = args[at]
        told = _ticket.order.environment(os.environ if env is None else env)
        return plain(*args[:at], told, *args[at + 1 :])

    return execute


_patches = Patches(_patch)
os.register_at_fork(after_in_child=shielded(_forked))
