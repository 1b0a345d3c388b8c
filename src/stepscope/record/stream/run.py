"""The stream of a run: its folder from the first moment on, and what becomes of it at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope.notices import notify
from stepscope.record.stream.places import StreamFolders, is_of_stream, is_unsealed
from stepscope.record.stream.streaming import ProcessStream, new_folders
from stepscope.trace.placing import TRACE_SUFFIX, numbered
from stepscope.trace.process_facts import place_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.record.recorder import Recorder
    from stepscope.record.session import Session

_MOST_OF_A_NAME = 10_000


class RunStream:
    """Streams what this process and its children record, until it is sealed or found."""

    def __init__(self, folders: StreamFolders, claimed: Path) -> None:
        """Take folders of this run's own; ``claimed`` is the output that belongs to them."""
        self.folders = folders
        self.output = claimed
        self._pid = os.getpid()
        self._process = ProcessStream(folders)

    @classmethod
    def begin(
        cls, output: Path, about: Callable[[Path], dict[str, Any]], *, replaces: bool = False
    ) -> RunStream | None:
        """Take a name for the output, and begin to stream; None where that cannot be.

        ``about`` returns what whoever seals it in our place must know, given that name. What the
        output ``replaces`` stays until then.
        """
        try:
            str(output.absolute()).encode()
        except UnicodeEncodeError:
            notify("the recording is not streamed: the name of its folder is not valid text")
            return None
        try:
            folder, claimed = _claimed(output.absolute(), replaces=replaces)
        except OSError as error:
            notify(f"the recording is not streamed: {error.strerror or error}")
            return None
        stream = cls(new_folders(folder, about(claimed)), claimed)
        stream._process.start()
        return stream

    def follow(self, recorder: Recorder) -> None:
        """Note what the sources of a recorder say of themselves, from now on."""
        self._process.describe = lambda: described(recorder)
        self._process.tell()

    def watch(self, module: str) -> bool:
        """Have a process outlive this one, which then runs a module on our folder."""
        command = [sys.executable, *_flags(), "-m", module, self.folders.disk, self.folders.memory]
        return _native.start_watcher(command)

    def stop(self) -> None:
        """Stream no more: the recording is being handed over."""
        if os.getpid() == self._pid:
            self._process.stop()

    def forget(self) -> None:
        """Remove what was streamed: it is saved, or nobody wants it."""
        if os.getpid() != self._pid:
            return
        self.stop()
        self.folders.forget_memory()
        remove_unsealed(Path(self.folders.disk))
        _native.dismiss_watcher()


def start_streamed(session: Session, stream: RunStream | None) -> None:
    """Begin a session whose records go into a stream, if there is one; none is left if it fails."""
    try:
        session.start()
    except BaseException:
        if stream is not None:
            stream.forget()
        raise
    if stream is not None:
        stream.follow(session.recorder)


def remove_unsealed(folder: Path) -> None:
    """Remove a stream, and its folder if that holds nothing else."""
    if not is_unsealed(folder):
        return
    for path in filter(is_of_stream, list(folder.iterdir())):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def described(recorder: Recorder) -> Mapping[str, Any]:
    """Return the fields of a TraceInfo that the sources know while they record."""
    sources = recorder.sources
    return {
        "sources": {each.name: says for each in sources if (says := each.describe_running())},
        "devices": [dict(device) for each in sources for device in each.devices],
        "code_folders": [folder for each in sources for folder in each.code_folders],
        "parallelism": {k: v for each in sources for k, v in each.parallelism().items()},
        **place_facts({k: v for each in sources for k, v in each.job().items()}),
    }


def _claimed(output: Path, *, replaces: bool) -> tuple[Path, Path]:
    """Make the folder to stream into, under a name that nobody has; return it and the output.

    It is the output itself, where that becomes a folder and is not there yet.
    """
    ends_well = output.name.lower().endswith(TRACE_SUFFIX)
    is_output = ends_well and not replaces
    stem = output.name[: -len(TRACE_SUFFIX)] if ends_well else output.name
    wanted = output if is_output else output.with_name(f"{stem}.stream{TRACE_SUFFIX}")
    for number in range(1, _MOST_OF_A_NAME):
        folder = numbered(wanted, wanted.name[-len(TRACE_SUFFIX) :], number)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder, folder if is_output else output
    raise OSError(f"{output}: this name and its numbered variants are all taken")


def _flags() -> list[str]:
    """Return the flags that Python needs to find the same modules."""
    flags = []
    if sys.flags.isolated:
        flags.append("-I")
    if sys.flags.no_user_site:
        flags.append("-s")
    if sys.flags.ignore_environment:
        flags.append("-E")
    return flags
