"""What this process can say of itself at any time, as plain data.

Only ``sys``, ``os`` and modules of ours that import no more are needed: the recorded program has
perhaps imported nothing yet. ``trace/process_facts.py`` makes the fields of a trace of it, in
another process.
"""

import os
import sys

from stepscope._native import wall_offset_ns
from stepscope.trace.cores import parallelism_of_process
from stepscope.trace.variables import NOTED_VARIABLES

_NAMED_WITH_VERSION = ("torch", "paddle", "numpy", "jax", "cupy")
_START_FIELD = 19  # of /proc/PID/stat, counted after the name of the command


def raw_facts() -> dict[str, object]:
    """Return what is known about this process, apart from its events."""
    namespaces = _namespaces_of_modules()
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "parent_start_ticks": start_ticks(os.getppid()),
        "host": os.uname().nodename,
        "wall_offset_ns": wall_offset_ns(),
        "argv": _texts(getattr(sys, "argv", ())),  # an embedded interpreter may have none
        "orig_argv": _texts(sys.orig_argv),
        "executable": sys.executable or "",
        "main_file": _text(namespaces.get("__main__", {}).get("__file__")),
        "cwd": _current_folder(),
        "path": _texts(sys.path),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "stdlib": os.path.dirname(os.__file__),
        "python": sys.version,
        "python_tag": sys.implementation.cache_tag or "",
        "environment": {
            name: value for name, value in os.environ.items() if name in NOTED_VARIABLES
        },
        "parallelism": parallelism_of_process(),
        "module_files": {
            name: file
            for name, namespace in namespaces.items()
            if name != "__main__" and "." not in name and (file := _origin(namespace))
        },
        "module_versions": {
            name: str(version)
            for name in _NAMED_WITH_VERSION
            if (version := namespaces.get(name, {}).get("__version__")) is not None
        },
    }


def start_ticks(pid: int) -> int:
    """Return a process's start time in ticks since boot; 0 if the kernel does not report it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return 0


def _namespaces_of_modules() -> dict[str, dict[str, object]]:
    """Return the names in all modules, without running any code of a module.

    Reading an attribute of a lazy module imports it, so the dictionaries are read past the classes
    of the modules. What is not a module is left out.
    """
    return {
        name: object.__getattribute__(module, "__dict__")
        for name, module in list(sys.modules.items())  # another thread may import meanwhile
        if isinstance(name, str) and issubclass(type(module), type(sys))
    }


def _origin(namespace: dict[str, object]) -> str:
    """Return where a module was loaded from; empty for one that is built in or made by hand."""
    origin = _text(getattr(namespace.get("__spec__"), "origin", None))
    return "" if origin == "built-in" else origin or _text(namespace.get("__file__"))


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(values: object) -> list[str]:
    """Return the elements that are text: a program may put anything into such a list."""
    elements = list(values) if isinstance(values, list | tuple) else []
    return [element for element in elements if isinstance(element, str)]


def process_name(target: str) -> str:
    """Return a name for this process: its worker number, or what it runs."""
    for name in ("torch.utils.data", "paddle.io"):
        ask = getattr(sys.modules.get(name), "get_worker_info", None)
        worker = ask() if ask is not None else None
        if worker is not None:
            return f"DataLoader worker {worker.id}"
    current = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    name = str(getattr(current, "_name", ""))
    return name if name and name != "MainProcess" else target


def found_program() -> bool:
    """Return whether Python found its program: then it has set the loader of ``__main__``."""
    loader = getattr(sys.modules.get("__main__"), "__loader__", None)
    word = (getattr(sys, "argv", None) or [""])[0]
    builtin = getattr(sys.modules["_frozen_importlib"], "BuiltinImporter", None)
    return loader is not builtin or word in ("", "-", "-c")


def last_error() -> str:
    """Return the error that ended the program early, as Python has printed it; or an empty text."""
    kind = getattr(sys, "last_type", None)
    return text_of(kind, getattr(sys, "last_value", "")) if isinstance(kind, type) else ""


def text_of(kind: type, error: object) -> str:
    """Return the first line of what Python prints of an error."""
    lines = str(error).splitlines()
    return f"{kind.__name__}: {lines[0]}" if lines else kind.__name__


def path_prefixes(target: str, site_folders: list[str]) -> list[str]:
    """Return the folders that modules are imported from: a file in one is named from there on."""
    # Python adds the folder of the program only later.
    target = os.path.abspath(target)
    own = target if os.path.isdir(target) else os.path.dirname(target)
    folders = [own, *sys.path, *site_folders]
    paths = {os.path.abspath(folder) for folder in folders if isinstance(folder, str)}
    return [
        (path + "/").encode("utf-8", "replace").decode("utf-8") for path in paths if path != "/"
    ]


def count_threads() -> int:
    """Return how many threads this process has, ours included."""
    return len(os.listdir("/proc/self/task"))
