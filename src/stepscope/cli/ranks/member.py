"""A process of a job: as soon as it turns out to be a rank, it records itself, and saves.

It is one when it makes the default process group. Nothing that goes wrong here may end it: it is
the program's, not ours.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.util
import os
import sys
import threading
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.ranks import children
from stepscope.cli.ranks.folder import rank_name
from stepscope.cli.signals import Phase, Termination
from stepscope.frameworks.python.child_recorder import withdraw
from stepscope.notices import notify
from stepscope.record.group_makers import GroupMaker
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.trace import launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.cli.ranks.order import Order
    from stepscope.record.session import Session
    from stepscope.record.stream.run import RunStream

_PATIENCE_S = 30.0  # of a process that ends while its trace is being saved
_LAST = -1000  # of multiprocessing's finalizers
_SPAWN = "spawn"

_member: Member | None = None
_arrived: Ticket | None = None


def join(order: Order, *, ends_itself: bool = False, is_rank: bool = False) -> None:
    """Make this process a part of a job; multiprocessing ends a process ``ends_itself``."""
    global _member  # noqa: PLW0603 - a process is in one job
    try:
        if _member is None or not _member.is_ours():
            _member = Member(order)
            _member.watch()
        if ends_itself:
            multiprocessing.util.Finalize(None, finish, exitpriority=_LAST)
        if is_rank:
            _member.begin()
    except Exception as error:
        _complain(error)


def finish() -> None:
    """Save the trace of this process, if it is a rank; the process ends."""
    if _member is not None and _member.is_ours():
        _member.finish()


class Ticket:
    """Travels with a process that is spawned, or is there when it is forked."""

    def __init__(self, order: Order) -> None:
        """Take what the job is told."""
        self.order = order

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come to a process that was spawned."""
        vars(self).update(state)
        self.arrive()

    def arrive(self) -> None:
        """Join now, and again when multiprocessing has set the process up.

        Unless it was spawned, it forgets all finalizers before that.
        """
        global _arrived  # noqa: PLW0603 - multiprocessing holds it weakly
        _arrived = self
        join(self.order, ends_itself=True)
        multiprocessing.util.register_after_fork(
            self, lambda each: join(each.order, ends_itself=True)
        )


class Member:
    """This process."""

    def __init__(self, order: Order) -> None:
        """Take what the job was told."""
        self._order = order
        self._pid = os.getpid()
        self._session: Session | None = None
        self._stream: RunStream | None = None
        self._termination: Termination | None = None
        self._lock = threading.Lock()
        self._saver: threading.Thread | None = None
        self._is_saved = threading.Event()
        self._is_saved.set()
        launcher.run_id_given = order.run_id
        self._waiting = [
            PatchesWhenImported(each.modules[0], Patches(partial(self._patch, each)))
            for each in (GroupMaker(**told) for told in order.group_makers)
        ]

    def is_ours(self) -> bool:
        """Tell whether this is the process that joined, and not one that was forked from it."""
        return os.getpid() == self._pid

    def watch(self) -> None:
        """Wait for this process to become a rank, and tell its own children of the job."""
        children.pass_on(Ticket(self._order))
        for each in self._waiting:
            each.start()

    def begin(self) -> None:
        """Record from now on: this is a rank."""
        with self._lock:
            if self._session is not None:
                return
            children.pass_on_no_more()
            withdraw()
            self._session = self._started()
        # Saving imports it, which cannot be done any more when Python ends.
        import concurrent.futures.thread  # noqa: F401

        atexit.register(self.finish)
        if threading.current_thread() is threading.main_thread():
            self._end_by_signals()

    def _started(self) -> Session:
        from stepscope.cli.ranks.left import started_stream
        from stepscope.record.stream.run import start_streamed

        session = self._order.session()
        stream = started_stream(self._order)
        start_streamed(session, stream)
        self._stream = stream
        return session

    def finish(self) -> None:
        """Save what was recorded."""
        if not self.is_ours():
            return
        with self._lock:
            session, self._session = self._session, None
        for each in self._waiting:
            each.stop()
        children.pass_on_no_more()
        if session is None:
            if threading.current_thread() is not self._saver:
                self._is_saved.wait(_PATIENCE_S)  # a signal's thread saves
            return
        self._saver = threading.current_thread()
        self._is_saved.clear()
        if self._termination is not None:
            self._termination.phase = Phase.AFTER  # a signal lets the saving finish
        try:
            self._save(session)
        except Exception as error:
            _complain(error)
        finally:
            self._is_saved.set()
            is_main = self._saver is threading.main_thread()
            if self._termination is not None and is_main:  # else the signal's thread ends us
                self._termination.__exit__()

    def _save(self, session: Session) -> None:
        from stepscope.cli.saving import save_somewhere

        stream = self._stream
        if stream is not None:
            stream.stop()
        session.stop()
        trace = session.trace
        assert trace is not None, "a stopped session has a trace"
        folder = Path(self._order.folder)
        with contextlib.suppress(OSError):  # saving says what is wrong, and goes elsewhere
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = folder / rank_name(trace, self._order.suffix)
        is_own = stream is not None and stream.output == target  # the folder of its stream
        saved = save_somewhere(trace, target, force=is_own)
        if stream is not None and saved is not None:
            stream.forget()

    def _end_by_signals(self) -> None:
        self._termination = Termination(lambda _: self.finish(), also_when_blocked=True)
        self._termination.__enter__()
        self._termination.phase = Phase.PROGRAM

    def _patch(self, maker: GroupMaker, patches: Patches) -> None:
        for place in maker.modules:
            module: Any = sys.modules.get(place)
            if callable(getattr(module, maker.function, None)):
                patches.wrap(module, maker.function, partial(self._beginning, maker))

    def _beginning(self, maker: GroupMaker, plain: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def make_group(*args: Any, **kwargs: Any) -> Any:
            if self.is_ours():
                try:
                    _note_place(dict(zip(maker.arguments, args, strict=False)) | kwargs)
                    self.begin()
                except Exception as error:
                    _complain(error)
            return plain(*args, **kwargs)

        return make_group


def _note_place(told_by_program: Mapping[str, Any]) -> None:
    """Remember which rank this is meant to be: it may fail to become one."""
    rank, world = told_by_program.get("rank"), told_by_program.get("world_size")
    told = launcher.place_of_process()
    if told is not None and told.rank == rank:
        return  # a launcher, which knows more of it
    if type(rank) is int and type(world) is int and 0 <= rank < world:
        launcher.place_given = launcher.Place(rank, world, launcher=_SPAWN)


def _complain(error: Exception) -> None:
    with contextlib.suppress(Exception):
        notify(f"process {os.getpid()} is not recorded: {type(error).__name__}: {error}")
