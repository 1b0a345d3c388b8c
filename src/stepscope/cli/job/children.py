"""How the processes that a program starts are told of the job, however they are started.

Processes of multiprocessing carry it with them, or are forked; other programs find it in their
environment, where Python looks for ``sitecustomize`` on its way to the first line.
"""

from __future__ import annotations

import inspect
import multiprocessing.process
import multiprocessing.util
import os
import subprocess
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from stepscope._native import shielded
from stepscope.cli.job.order import START_FOLDER, VARIABLE
from stepscope.record.patching import Patches

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

    from stepscope.cli.job.order import Order

_ATTRIBUTE = "_stepscope_job"
_order: Order | None = None  # that this process passes on
_ticket: Ticket | None = None  # with which this process came


def pass_on(order: Order) -> None:
    """Tell every process that is started from now on."""
    global _order  # noqa: PLW0603 - a process is in one job
    _order = order
    _patches.acquire()


def pass_on_no_more() -> None:
    """Leave the children of a rank alone: they are its workers."""
    global _order  # noqa: PLW0603
    if _order is None:
        return
    _order = None
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


class Ticket:
    """Travels with a process that is spawned; it joins the job there before its first line."""

    def __init__(self, order: Order) -> None:
        """Take what it is told."""
        self.order = order

    def __setstate__(self, state: tuple[None, dict[str, Any]] | dict[str, Any]) -> None:
        """Arrive in the child."""
        vars(self).update(state if isinstance(state, dict) else state[1])
        _join(self.order)


def _join(order: Order) -> None:
    """Join now, and again when multiprocessing has set the process up.

    Unless it was spawned, it forgets all finalizers before that.
    """
    from stepscope.cli.job.member import join

    join(order, ends_itself=True)
    global _ticket  # noqa: PLW0603 - multiprocessing holds it weakly
    _ticket = Ticket(order)
    multiprocessing.util.register_after_fork(
        _ticket, lambda each: join(each.order, ends_itself=True)
    )


def _forked() -> None:
    """Join the job in a forked child; nothing of the parent's records here any more."""
    global _order
    order, _order = _order, None
    if order is not None:
        _join(order)


def _patch(patches: Patches) -> None:
    patches.wrap(multiprocessing.process.BaseProcess, "start", _with_ticket)
    plain = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
    at = list(plain.parameters).index("env")
    patches.wrap(subprocess.Popen, "_execute_child", partial(_with_environment, at))


def _with_ticket(plain: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
    @wraps(plain)
    def start(process: BaseProcess) -> None:
        if _order is not None:
            vars(process)[_ATTRIBUTE] = Ticket(_order)
        try:
            plain(process)
        finally:
            vars(process).pop(_ATTRIBUTE, None)

    return start


def _with_environment(at: int, plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def execute(*args: Any) -> Any:
        if _order is None or len(args) <= at:
            return plain(*args)
        env = args[at]
        told = _order.environment(os.environ if env is None else env)
        return plain(*args[:at], told, *args[at + 1 :])

    return execute


_patches = Patches(_patch)
os.register_at_fork(after_in_child=shielded(_forked))
