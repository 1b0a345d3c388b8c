"""Starts a command, waits for it, runs the answer, and ends as the command did.

    python -I -S supervise.py OPTION... -- COMMAND WORD...

    --signals IGNORED BLOCKED   masks of signals, in hex as /proc/PID/status has them, that the
                                command starts with; else those of this process, less what Python
                                itself ignores
    --child-env NAME=VALUE      set a variable of the command's environment
    --child-env -NAME           remove one
    --companion SIGNAL:SECONDS N WORD...
                                run a command of N words beside the command, when that has run for
                                SECONDS. It has all signals blocked, is sent SIGTERM when the
                                command has ended, and is waited for before the answer. SIGNAL, if
                                it is not 0, is passed on to it and not to the command, which
                                ignores it unless it handles it
    --answer N WORD...          run a command of N words when the command has ended, with one more
                                word: exit:CODE, signal:NUMBER, or none:ERRNO if it did not start

This process only waits, perhaps for days, so it imports C modules alone: Python's ``signal`` or
``subprocess`` would add a tenth to its memory. Signals stay blocked here and are taken one by one.

With a controlling terminal the command shares this process's group: Ctrl-C, Ctrl-Z, ``fg`` and
pipelines then work as the shell arranged them. Otherwise it has a group of its own, which it may
kill without killing this process. A signal that is sent to this process is passed on to the
command, unless the command's group was sent it as well. A *sentinel* tells: a process in that group
that does nothing but report the signals that it gets.
"""

import _signal  # ``signal`` without its enums
import errno
import os
import sys
import time

_INHERITED_MASK: "set[int]" = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepscope.cli.run import sentinel
else:
    sys.path.append(os.path.dirname(__file__))  # Python leaves it out with -I
    import sentinel

_IGNORED_BY_PYTHON = {_signal.SIGPIPE, _signal.SIGXFSZ}
_IMPATIENT = {_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT}
_CANNOT_EXECUTE, _NOT_FOUND = 126, 127


class Options:
    def __init__(self, words: "list[str]") -> None:
        """Parse the words of ``stepscope run``: an error in them is a bug of ours."""
        self.ignored, self.mask = _inherited_ignored(), _INHERITED_MASK
        self.environment = dict(os.environb)
        self.companion_signal = 0
        self.companion_delay_s = 0.0
        self.companion: list[str] = []
        self.answer: list[str] = []
        words = list(reversed(words))
        while (option := words.pop()) != "--":
            if option == "--signals":
                self.ignored, self.mask = _signals_of(words.pop()), _signals_of(words.pop())
            elif option == "--child-env":
                self._change_environment(os.fsencode(words.pop()))
            elif option == "--companion":
                number, _, delay_s = words.pop().partition(":")
                self.companion_signal, self.companion_delay_s = int(number), float(delay_s)
                self.companion = _pop_counted(words)
            elif option == "--answer":
                self.answer = _pop_counted(words)
            else:
                raise ValueError(option)
        if self.companion_signal:
            self.ignored.add(self.companion_signal)
        self.command = words[::-1]

    def _change_environment(self, change: bytes) -> None:
        name, equals, value = change.partition(b"=")
        if equals:
            self.environment[name] = value
        else:
            self.environment.pop(name[1:], None)


def _pop_counted(words: "list[str]") -> "list[str]":
    return [words.pop() for _ in range(int(words.pop()))]


def _signals_of(mask: str) -> "set[int]":
    bits = int(mask, 16)
    return {number for number in sentinel.ALL_SIGNALS if bits >> (number - 1) & 1}


def _inherited_ignored() -> "set[int]":
    return _signals_of(sentinel.status_of("self", "SigIgn") or "0") - _IGNORED_BY_PYTHON


def _has_terminal() -> bool:
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[4] != "0"
    except OSError:
        return False


class Supervisor:
    """One command from its start to its end."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shares_group = _has_terminal()
        self._sentinel: sentinel.Sentinel | None = None
        self._group = 0
        self._pid = 0  # of the command, later of the companion or the answer
        self._companion = 0
        self._companion_at: float | None = None  # when it is to start
        self._has_ended = False
        self.status = _CANNOT_EXECUTE << 8  # wait status of the command

    def run(self) -> None:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # otherwise no exit status is kept
        obstacle = self._start()
        self._give_up_inherited_files()
        if obstacle:
            os.waitpid(self._pid, 0)
            word, self.status = f"none:{obstacle}", _exit_code_of(obstacle) << 8
        else:
            if self._options.companion:
                self._companion_at = time.monotonic() + self._options.companion_delay_s
            self.status = self._wait()
            self._companion_at = None
            word = _described(self.status)
        self._end_sentinel()
        self._has_ended = True
        if self._companion:
            self._pid = self._companion
            sentinel.send(self._pid, _signal.SIGTERM)
            self._wait()
            self._companion = 0
        if self._options.answer:
            self._pid = self._spawn([*self._options.answer, word])
            self._wait()

    # ---- starting

    def _start(self) -> int:
        """Fork the command; return the errno with which it did not start, or 0."""
        gate_fd, open_gate_fd = os.pipe()
        read_fd, write_fd = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            try:
                sentinel.die_with(parent)
                os.close(open_gate_fd)
                os.read(gate_fd, 1)
                self._become(self._options.command, self._options.environment)
            except OSError as error:
                os.write(write_fd, b"%d" % (error.errno or errno.ENOEXEC))
            finally:
                os._exit(_CANNOT_EXECUTE)
        os.close(write_fd)
        os.close(gate_fd)
        # A signal that comes before the sentinel is passed on. That the command may have it already
        # makes no difference: it is executed, and could handle one, only afterwards.
        self._start_sentinel()
        os.close(open_gate_fd)
        obstacle = int(os.read(read_fd, 16) or b"0")  # the pipe ends when the command is executed
        os.close(read_fd)
        if obstacle:
            _say_why(self._options.command[0], obstacle)
        return obstacle

    def _start_sentinel(self) -> None:
        """Make the command's process group, and start the sentinel in it."""
        if self._shares_group:
            self._group = os.getpgrp()
            self._sentinel = sentinel.Sentinel(self._group)
        elif os.getpgrp() == os.getpid():
            # The shell gave this process a group; the command gets one, too.
            self._group = self._pid
            os.setpgid(self._pid, self._group)
            self._sentinel = sentinel.Sentinel(self._group)
        else:
            self._sentinel = sentinel.Sentinel(0)
            self._group = self._sentinel.pid
            os.setpgid(self._pid, self._group)

    def _become(self, command: "list[str]", environment: "dict[bytes, bytes]") -> None:
        """Replace this forked process; signals are as they were before Python started."""
        for number in sentinel.ALL_SIGNALS - {_signal.SIGKILL, _signal.SIGSTOP}:
            is_ignored = number in self._options.ignored
            _signal.signal(number, _signal.SIG_IGN if is_ignored else _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._options.mask)
        _execute(command, environment)

    def _spawn(self, command: "list[str]", *, is_companion: bool = False) -> int:
        """Start a command of ours, which has our environment and group."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            if is_companion:
                sentinel.die_with(parent)
                _execute(command, dict(os.environb))
            self._become(command, dict(os.environb))
        except OSError as error:
            _say_why(command[0], error.errno or errno.ENOEXEC)
        finally:
            os._exit(_CANNOT_EXECUTE)

    def _give_up_inherited_files(self) -> None:
        """Close what only the command is to hold: others wait for the last one who closes it.

        Stdout and stderr stay open for the answer.
        """
        open_fds = {1, 2}
        sentinel.close_all_but(open_fds | {self._sentinel.fd} if self._sentinel else open_fds)
        null_fd = os.open("/dev/null", os.O_RDONLY)
        if null_fd == 0:  # else it was closed from the start
            os.set_inheritable(null_fd, True)

    # ---- waiting

    def _wait(self) -> int:
        """Pass signals on until the command, or the answer, has ended; return its status."""
        while True:
            info = self._next_signal()
            number, is_from_kernel = info.si_signo, info.si_code > 0
            if number == _signal.SIGCHLD:
                status = self._reap()
                if status is not None:
                    return status
            elif self._companion and self._has_ended:
                if number in _IMPATIENT:  # it is not waited for any longer
                    sentinel.send(self._companion, _signal.SIGKILL)
            elif self._has_ended:
                if not is_from_kernel:  # the terminal signals the answer itself
                    sentinel.send(self._pid, number)
            elif self._companion and number == self._options.companion_signal:
                sentinel.send(self._companion, number)
            elif not (self._sentinel and self._sentinel.has_got(number)):
                sentinel.send(self._pid, number)

    def _next_signal(self) -> "_signal.struct_siginfo":
        """Wait for a signal; a companion that is to start later starts meanwhile."""
        while self._companion_at is not None:
            wait_s = max(self._companion_at - time.monotonic(), 0)
            info = _signal.sigtimedwait(sentinel.ALL_SIGNALS, wait_s)
            if info is not None:
                return info
            self._companion = self._spawn(self._options.companion, is_companion=True)
            self._companion_at = None
        return _signal.sigwaitinfo(sentinel.ALL_SIGNALS)

    def _reap(self) -> "int | None":
        """Handle every child that has changed; return the status of the one that is waited for."""
        result = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return result
            if not pid:
                return result
            if self._sentinel and pid == self._sentinel.pid:
                if os.WIFSIGNALED(status):
                    self._replace_sentinel()
            elif pid == self._companion and pid != self._pid:
                self._companion = 0  # it has failed, and printed why
            elif pid != self._pid:
                continue  # a child of the program that executed us
            elif os.WIFSTOPPED(status):
                self._stop_too(os.WSTOPSIG(status))
            elif os.WIFCONTINUED(status):
                self._continue_sentinel()
            else:
                result = status

    def _stop_too(self, number: int) -> None:
        """Stop as the command has, so that the shell takes its terminal back."""
        if not self._shares_group or _signal.SIGCONT in _signal.sigpending():
            return
        if self._sentinel:  # signals that come meanwhile stay pending in both
            sentinel.send(self._sentinel.pid, _signal.SIGSTOP)
        if number != _signal.SIGSTOP:
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {number})  # stops here until SIGCONT
        _signal.pthread_sigmask(_signal.SIG_BLOCK, {number})
        self._continue_sentinel()

    def _continue_sentinel(self) -> None:
        if self._sentinel:
            sentinel.send(self._sentinel.pid, _signal.SIGCONT)

    def _replace_sentinel(self) -> None:
        self._end_sentinel()
        self._sentinel = sentinel.Sentinel(self._group)
        if not self._sentinel.is_there:
            self._end_sentinel()  # the command was the last process of the group

    def _end_sentinel(self) -> None:
        if self._sentinel:
            self._sentinel.close()
            self._sentinel = None


def _execute(command: "list[str]", environment: "dict[bytes, bytes]") -> None:
    """Execute a command as a shell does; return never, but raise an OSError."""
    name = os.fsencode(command[0])
    if b"/" in name or not name:
        paths = [name]
    else:
        folders = environment.get(b"PATH", os.fsencode(os.defpath)).split(b":")
        paths = [folder + b"/" + name if folder else name for folder in folders]
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in paths:
        try:
            os.execve(path, command, environment)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno == errno.ENOEXEC:  # a script without a #! line
                os.execve("/bin/sh", ["/bin/sh", os.fsdecode(path), *command[1:]], environment)
            if error.errno != errno.ENOTDIR or len(paths) == 1:
                failure = error
    raise failure


def _described(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"signal:{os.WTERMSIG(status)}"
    return f"exit:{os.WEXITSTATUS(status)}"


def _exit_code_of(error: int) -> int:
    return _NOT_FOUND if error == errno.ENOENT else _CANNOT_EXECUTE


def _say_why(name: str, error: int) -> None:
    is_searched = error == errno.ENOENT and "/" not in name
    reason = "command not found" if is_searched else os.strerror(error)
    _say(f"{name}: {reason}")


def _say(line: str) -> None:
    try:
        os.write(2, os.fsencode(f"stepscope run: {line}\n"))
    except OSError:
        pass  # stderr is closed


def _end_as(status: int) -> None:
    """End this process with the status of another, and without a core file of its own."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        sentinel.prctl(sentinel.SET_DUMPABLE, 0)
        if number != _signal.SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # PID 1 of a container ignores its own signals
    os._exit(os.WEXITSTATUS(status))


def main(words: "list[str]") -> None:
    """Supervise a command as the words say; never return."""
    supervisor = Supervisor(Options(words))
    try:
        supervisor.run()
    except OSError as error:
        _say(str(error))
    _end_as(supervisor.status)


if __name__ == "__main__":
    main(sys.argv[1:])
