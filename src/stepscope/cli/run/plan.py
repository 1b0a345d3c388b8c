"""What the processes of a run are told, and where their recordings go."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.cli.base.options import record_options
from stepscope.errors import StepscopeError
from stepscope.frameworks.python.operations import operations
from stepscope.frameworks.python.options import (
    CPU_BUDGET,
    GC_PAUSES,
    MIN_PAUSE_NS,
    REQUESTS,
    SAMPLE,
)
from stepscope.notices import notify
from stepscope.private_folders import new_private_folder
from stepscope.record.inside.boot import VARIABLE
from stepscope.record.limits import Keep, MemoryLimit
from stepscope.record.options import DEVICE, HELD_MEMORY, STACKS, RecordOptions
from stepscope.record.source import known_options, places_of_extensions
from stepscope.record.stream.places import (
    PLAN,
    StreamFolders,
    new_memory_folder,
)
from stepscope.record.stream.processes import ProcessId
from stepscope.record.triggers import EXTENSIONS
from stepscope.trace.placing import TRACE_SUFFIX, numbered

START_FOLDER = str(Path(__file__).parents[2] / "record" / "inside" / "start")
# Python would compile a script at every start; a module is compiled once.
_RUN_COMPILED = (
    "import sys, _frozen_importlib_external as e; module = type(sys)('supervise'); "
    "module.__file__ = sys.argv[1]; "
    "e.SourceFileLoader('supervise', sys.argv[1]).exec_module(module); module.main(sys.argv[2:])"
)
SUPERVISOR = ("-c", _RUN_COMPILED, str(Path(__file__).with_name("supervise.py")))
"""Python's arguments that run the supervisor; the supervisor's own arguments come after them."""

# No module of the program may shadow one of Python's: isolated, and Python's folders first.
_ISOLATED = """\
import os, sys; os.environ.pop('STEPSCOPE', None); path = sys.argv.pop(1).split(':')
sys.path = [folder for folder in sys.path if folder not in path] + path
{first}try:
 from {module} import main
 main()
except KeyboardInterrupt:
 note = f'stepscope: interrupted; `stepscope summary {{sys.argv[1]}}` shows what was recorded\\n'
 sys.stderr.write(note)
"""

_MOST_OF_A_NAME = 10_000


def recording_plan(args: argparse.Namespace) -> dict[str, str]:
    options = record_options(args)
    try:
        limit = args.memory_limit and MemoryLimit(args.memory_limit, Keep(args.keep))
        limit = args.last.limit(limit) if args.last is not None else limit
        sample_ns = options[SAMPLE]
    except ValueError as error:
        raise StepscopeError(str(error)) from None
    extensions = places_of_extensions(options)
    asked = {option.at_once for option in known_options().values() if options[option]}
    at_once = sorted({EXTENSIONS for _ in extensions} | asked - {""})
    return {
        "limit_bytes": str(limit.bytes if limit else 0),
        "keep_newest": _flag(limit is not None and limit.keep is Keep.NEWEST),
        "is_ring": _flag(limit is not None and limit.is_ring),
        "seconds": str(limit.seconds if limit else 0.0),
        "devices": _flag(options[DEVICE]),
        "gc_ns": str(MIN_PAUSE_NS) if options[GC_PAUSES] else "",
        "held_memory": _flag(options[HELD_MEMORY]),
        "tasks": _flag(options[REQUESTS]),
        "stacks": options[STACKS].value,
        "sample_ns": str(sample_ns),
        "sample_budget": str(CPU_BUDGET),
        "operations": bytes(operations()).hex(),
        "patch_torch": _flag(args.patch_torch),
        "frameworks": "stepscope.frameworks.begin",
        "extensions": " ".join(extensions),
        "at_once": " ".join(at_once),
        "failures": _flag(args.on_exception),
        "control": _flag(not args.no_control),
        "budget": str(args.overhead_budget or ""),
        "event_ns": _event_ns() if args.overhead_budget else "",
        "options": json.dumps(_plain(options)),
    }


def _event_ns() -> str:
    from stepscope.record.window import range_overhead_ns  # rarely needed

    return str(range_overhead_ns())


class RunFolders(NamedTuple):
    """A run that is about to begin: its folders, and the output that it has claimed."""

    folders: StreamFolders
    output: Path

    @classmethod
    def begin(
        cls, output: Path, about: Callable[[Path], dict[str, Any]], *, replaces: bool
    ) -> RunFolders:
        """Take a name for the output; ``about`` returns what the answer must know, given it.

        Where nothing can be written there, the recording lies elsewhere until it is saved.
        """
        wanted = output.absolute()
        try:
            folder, claimed = _claimed(wanted, replaces=replaces)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            notify(f"{output} cannot be written ({reason}): the trace will be saved somewhere else")
            folder, claimed = new_private_folder("run-"), wanted
        memory = new_memory_folder()
        # This process becomes the supervisor by exec, which moves its stack.
        owner = ProcessId.own()._replace(image=0)
        folders = StreamFolders(str(folder), str(memory or ""), owner, about(claimed))
        folders.write()
        return cls(folders, claimed)

    def tell(self, plan: dict[str, str]) -> None:
        """Write down how to record, for all processes to read."""
        about = {
            "disk": self.folders.disk,
            "memory": _flag(bool(self.folders.memory)),
            "python": str(sys.hexversion),
        }
        text = "".join(f"{name}={value}\n" for name, value in {**about, **plan}.items())
        path = Path(self.folders.shared) / PLAN
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    def environment(self) -> list[str]:
        """Return what is added to the environment of the program, as NAME=value."""
        theirs = os.environ.get("PYTHONPATH")
        # An empty part would mean the current folder, so our folder twice stands for an empty one.
        path = START_FOLDER if theirs is None else f"{START_FOLDER}:{theirs or START_FOLDER}"
        return [f"{VARIABLE}={self.folders.shared}", f"PYTHONPATH={path}"]

    def answer_command(self) -> list[str]:
        """Return the command that reads the recording after the program's end, and shows it."""
        wait = "import _signal as s; s.pthread_sigmask(s.SIG_BLOCK, {s.SIGINT, s.SIGTERM})\n"
        return self._command_of("stepscope.cli.run.answer", wait)

    def companion_command(self) -> list[str]:
        """Return the command that follows the recording until SIGTERM; empty if none is needed."""
        about = self.folders.about
        if not about["is_followed"]:
            return []
        wait = "import _signal as s; s.pthread_sigmask(s.SIG_BLOCK, s.valid_signals())\n"
        return self._command_of("stepscope.live.companion", wait)

    def _command_of(self, module: str, first: str = "") -> list[str]:
        code = _ISOLATED.format(first=first, module=module)
        library = _library_folders()
        theirs = [
            folder for folder in sys.path if Path(folder).is_absolute() and folder not in library
        ]
        path = ":".join(dict.fromkeys([str(Path(__file__).parents[3]), *theirs]))
        flags = ["-I", *(["-Xutf8"] if sys.flags.utf8_mode else [])]
        return [sys.executable, *flags, "-c", code, path, self.folders.disk, self.folders.memory]


def _library_folders() -> set[str]:
    """Return the folders of Python's own modules; importing ``sysconfig`` would take longer."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    prefixes, libraries = {sys.base_prefix, sys.base_exec_prefix}, {"lib", sys.platlibdir}
    folders = {f"{prefix}/{library}/{version}" for prefix in prefixes for library in libraries}
    return folders | {f"{folder}/lib-dynload" for folder in folders}


def _flag(value: object) -> str:
    return "1" if value else "0"


def _plain(options: RecordOptions) -> dict[str, Any]:
    """Return options as JSON can have them."""
    values = {name: options.given(name) for name in sorted(options.names)}
    return {name: getattr(value, "value", value) for name, value in values.items()}


def _claimed(output: Path, *, replaces: bool) -> tuple[Path, Path]:
    """Make the folder to stream into, under a name that nobody has; return it and the output.

    It is the output itself, where that becomes a folder and is not there yet.
    """
    str(output).encode()  # a name that is not valid text cannot be passed to the processes
    is_special = output.exists() and not (output.is_dir() or output.is_file())
    if is_special:  # a device or a pipe
        return new_private_folder("run-"), output
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
