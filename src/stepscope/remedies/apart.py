"""Starts a program in a world of its own: what it writes, sends and starts ends with it.

Run as a script, isolated, with a plan as JSON. Folders are overlaid with memory, so that the
program sees its own writes and nobody else does; the patch under trial is such a write. Processes
get a namespace whose end ends them all, and the network is the loopback alone.
"""

import ctypes
import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

NOT_APART = 125  # the exit code if the kernel does not allow it
_NEW_MOUNTS, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x20000, 0x10000000, 0x20000000, 0x40000000
_RECURSIVE, _PRIVATE = 16384, 1 << 18
_DIE_WITH_PARENT = 1
_SET_FLAGS, _GET_FLAGS, _UP = 0x8914, 0x8913, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(kind: str, place: str, flags: int = 0, options: str = "") -> None:
    source = kind.encode() or None
    data = os.fsencode(options) or None
    _checked(_libc.mount(source, os.fsencode(place), source, flags, data), f"mount {place}")


def _leave(*, with_network: bool) -> None:
    """Leave the namespaces of everybody else; as root without a namespace of users."""
    wanted = _NEW_MOUNTS | _NEW_PROCESSES | (0 if with_network else _NEW_NETWORK)
    if _libc.unshare(wanted) == 0:
        return
    user, group = os.getuid(), os.getgid()
    _checked(_libc.unshare(wanted | _NEW_USER), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _overlay(folders: "list[str]", scratch: str) -> None:
    """Lay memory over folders; ``scratch`` is where the memory is mounted."""
    _mount("tmpfs", scratch, 0, "mode=0700")
    descriptor = os.open(scratch, os.O_PATH)  # it may be covered by one of the overlays
    home = f"/proc/self/fd/{descriptor}"
    for number, folder in enumerate(folders):
        upper, work = f"{home}/u{number}", f"{home}/w{number}"
        status = os.stat(folder)
        os.mkdir(upper)
        os.mkdir(work)
        os.chmod(upper, status.st_mode & 0o7777)
        lower = folder
        for special in "\\,:":
            lower = lower.replace(special, "\\" + special)
        options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
        try:
            _mount("overlay", folder, 0, options)
        except OSError:
            if not any(folder.startswith(f"{outer}/") for outer in folders):
                raise  # what is mounted inside another folder may be no place for files
    os.close(descriptor)


def outermost(folders: "Iterable[str]") -> "list[str]":
    """Return existing folders without those that lie in another; mounts inside are added."""
    real = sorted({os.path.realpath(folder) for folder in folders} - {"/"})
    outer_folders: list[str] = []
    for folder in real:
        if os.path.isdir(folder) and not any(
            folder.startswith(f"{outer}/") for outer in outer_folders
        ):
            outer_folders.append(folder)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        places = [line.split(" ")[4] for line in file]
    inside = [
        place for place in places if any(place.startswith(f"{top}/") for top in outer_folders)
    ]
    return [*outer_folders, *sorted(filter(os.path.isdir, inside))]


def _raise_loopback() -> None:
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(any_socket, _GET_FLAGS, request))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14s", b"lo", flags | _UP, b""))


def _apply(edits: "dict[str, str]") -> None:
    """Write the files under trial: into the overlay, so that nobody else sees them."""
    for path, text in edits.items():
        mode = os.stat(path).st_mode
        with open(f"{path}.try", "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(f"{path}.try", mode & 0o7777)
        os.replace(f"{path}.try", path)


def _reap(program: int) -> int:
    """Wait for the program, and for what it has orphaned; return the program's exit code."""
    while True:
        process, status = os.wait()
        if process == program:
            return os.waitstatus_to_exitcode(status) & 0xFF


def main(plan: "dict[str, Any]") -> int:
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # nothing outlives the trial
    if os.getppid() != plan["trial"]:  # which has ended before this line
        return NOT_APART
    try:
        _leave(with_network=plan["network"])
        _checked(_libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None), "private mounts")
        _overlay(plan["apart"], plan["scratch"])
        os.chdir(plan["folder"])  # the same folder as before, but seen through the overlay
        _apply(plan["edits"])
    except OSError as error:
        sys.stderr.write(f"stepscope: {error}\n")
        return NOT_APART
    first = os.fork()
    if first:
        os.close(plan["fd"])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    try:
        _mount("proc", "/proc")
        if not plan["network"]:
            _raise_loopback()
    except OSError as error:
        sys.stderr.write(f"stepscope: {error}\n")
        os._exit(NOT_APART)
    program = os.fork()  # the first process of a namespace would ignore signals
    if not program:
        try:
            os.execvpe(plan["words"][0], plan["words"], {**os.environ, **plan["environment"]})
        finally:
            os._exit(127)
    os.close(plan["fd"])
    os._exit(_reap(program))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as _file:
        _plan = json.load(_file)
    sys.exit(main(_plan))
