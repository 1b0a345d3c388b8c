"""The sentinel: a process in the command's group that reports the signals that the group is sent.

``supervise.py`` loads this file. It waits as long as that, and imports C modules alone, too.
"""

import _signal  # ``signal`` without its enums
import os
import time

ALL_SIGNALS: frozenset[int] = frozenset(_signal.valid_signals())
SET_DUMPABLE = 4  # of prctl
_SET_PDEATHSIG = 1

_PATIENCE_S, _LOOKS = 0.001, 10  # between reads of the sentinel's reports, which may come late
# The maximum age of a report, if this process got its signal late on a busy machine; in one group,
# both processes get each signal of the group.
_LATE_NS, _LATE_IN_ONE_GROUP_NS = 100_000_000, 2_000_000_000


def status_of(process: "int | str", field: str) -> str:
    """Return a field of a process's status, empty if there is no such process."""
    try:
        with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
            return next((line.split()[1] for line in file if line.startswith(f"{field}:")), "")
    except OSError:
        return ""


def prctl(option: int, value: int) -> None:
    """Call prctl, where this Python has ctypes; the Python part of ctypes is not needed."""
    try:
        import _ctypes
    except ImportError:
        return
    program = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]
    _ctypes.call_cdeclfunction(_ctypes.dlsym(program, "prctl"), (option, value, 0, 0, 0))


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent has died, now or before this call."""
    prctl(_SET_PDEATHSIG, _signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), _signal.SIGKILL)


def send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except OSError:
        pass  # it has ended, or now belongs to another user


class Sentinel:
    """A process in the command's group that reports which signals the group is sent."""

    def __init__(self, group: int) -> None:
        """Start it in a group, or in a new group for 0; it dies with this process."""
        self._reports: list[tuple[int, int]] = []  # signals, and when they were received
        self._late_ns = _LATE_IN_ONE_GROUP_NS if group == os.getpgrp() else _LATE_NS
        self.fd, write_fd = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            try:
                _report_signals(parent, group, write_fd)
            finally:
                os._exit(1)
        os.close(write_fd)
        self.is_there = bool(os.read(self.fd, 1))  # false if the group no longer exists
        os.set_blocking(self.fd, False)

    def close(self) -> None:
        os.close(self.fd)
        send(self.pid, _signal.SIGKILL)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # it was reaped before

    def has_got(self, number: int) -> bool:
        """Return whether the group got a signal when this process did; waits for the report."""
        received_ns = time.monotonic_ns()
        for _ in range(_LOOKS):
            self._read_reports()
            for report in self._reports:
                if report[0] == number and report[1] > received_ns - self._late_ns:
                    self._reports.remove(report)
                    return True
            if int(status_of(self.pid, "ShdPnd") or "0", 16) >> (number - 1) & 1:
                return True  # the sentinel has not run yet
            time.sleep(_PATIENCE_S)
        return False

    def _read_reports(self) -> None:
        oldest = time.monotonic_ns() - self._late_ns
        self._reports = [report for report in self._reports if report[1] > oldest]
        try:
            text = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return
        for line in text.splitlines():
            number, _, sent_ns = line.partition(b" ")
            self._reports.append((int(number), int(sent_ns)))


def _report_signals(parent: int, group: int, write_fd: int) -> None:
    die_with(parent)
    close_all_but({write_fd})
    if group != os.getpgrp():
        try:
            os.setpgid(0, group)
        except OSError:
            return
    while _signal.sigtimedwait(ALL_SIGNALS, 0):
        pass  # signals of the group that it was forked in
    os.write(write_fd, b"\n")
    os.set_blocking(write_fd, False)
    while True:
        info = _signal.sigwaitinfo(ALL_SIGNALS)
        if info.si_pid != parent:
            try:
                os.write(write_fd, b"%d %d\n" % (info.si_signo, time.monotonic_ns()))
            except BlockingIOError:
                pass  # the pipe is full of unread reports


def close_all_but(open_fds: "set[int]") -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in open_fds:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself
