"""Switches recording on in a program that `stepscope run` has started, before its first line.

The program has imported nothing yet, and must find ``sys.modules`` as it would be without us. So
this file imports only built-in modules, and loads other files by path: importing our package would
load modules that could shadow the program's. The sources of a framework need more; they start once
the program has imported the framework.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "STEPSCOPE_RUN"
"""Names the folder that holds the plan of the run."""

PLAN = "plan"
OBSTACLE = ".obstacle"  # the suffix of a file in which a process says why it is not recorded
# What is noted in the stream of a process, by name, as in record/stream/notes.py.
FACTS, THREADS, SOURCES, PROCESS = "facts", "threads", "sources", "process"
PATHS, NOTICES, END, FAILURES = "paths", "notices", "end", "failures"

_INSIDE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(_INSIDE))
_MOST_MEMORY = 1 << 40  # the tmpfs itself sets the limit
_LOOKS_FOR_THREADS = 1000
_MOST_IMAGES = 1000  # that one process runs, one after the other

_DRIVERS = ("/dev/nvidiactl", "/dev/dxg")  # Linux, and Linux on Windows


def begin() -> None:
    """Record this process from now on, if it belongs to a run; never raises."""
    folder = os.environ.get(VARIABLE)
    _hide_start_folder()
    if not folder or Agent.of_process is not None or _is_own_command():
        return
    try:
        plan = read_plan(folder)
        if plan["python"] != str(sys.hexversion):
            raise RuntimeError(
                f"it runs Python {sys.version.split()[0]}, and Stepscope is installed for another; "
                "install it there, and run that one's stepscope"
            )
        Agent.of_process = Agent(folder, plan, _native())
    except FileNotFoundError:
        return  # the run is over, or its folder is not seen from here
    except Exception as error:
        _complain(folder, error)


def read_plan(folder: str) -> "dict[str, str]":
    """Return what the run is to record, a line a value."""
    with open(f"{folder}/{PLAN}", encoding="utf-8", errors="surrogateescape") as file:
        pairs = (line.rstrip("\n").partition("=") for line in file)
        return {name: value for name, _, value in pairs}


class Agent:
    """Records this process; a forked child begins anew, as a process of its own."""

    of_process: "Agent | None" = None

    def __init__(self, folder: str, plan: "dict[str, str]", native: "Any") -> None:
        self._folder = folder
        self._plan = plan
        self._native = native
        self._facts = _loaded("record/facts.py")
        self._frameworks: Any = None  # what records the frameworks that the program has imported
        self._hooks = 0
        self._rests = False
        self._thread_names: dict[str, str] = {}
        self._notices: list[str] = []
        self._failures: list[str] = []
        self._gc = _builtin("gc")
        watching: Any = _loaded("record/triggers.py")
        self._triggers: dict[str, Any] = dict(watching.TRIGGERS)
        if plan.get("failures") == "1":
            self._triggers["threading"] = ()
        if plan.get("held_memory") == "1":
            self._triggers["numpy"] = ()
        watching.ImportWatch(native, self._triggers, self.imported)
        # An audit hook makes each audit event, such as sys._getframe(), 150 ns slower.
        if plan.get("devices") == "1" and any(map(os.path.exists, _DRIVERS)):
            native.listen_to_libraries(native.shielded(self._library_opens))
        self._begin()
        for name in [
            module for module in self._triggers if module in sys.modules and module != "stepscope"
        ]:
            self.imported(name)
        for kind in plan.get("at_once", "").split():
            self.imported(kind)
        # Since Python 3.12, os.fork() warns of threads, and ours would be the only ones.
        if sys.version_info >= (3, 12):
            os.register_at_fork(
                before=native.shielded(self._rest),
                # Python counts threads after these hooks.
                after_in_parent=native.called_soon(native.shielded(self._go_on)),
            )
        os.register_at_fork(after_in_child=native.shielded(self._begin_in_child))
        _builtin("atexit").register(native.shielded(self.finish))

    def _begin(self) -> None:
        native, plan = self._native, self._plan
        self._pid = os.getpid()
        self._name = name = _new_name(self._folder, plan["disk"], self._pid)
        limit, seconds = int(plan["limit_bytes"]), float(plan["seconds"])
        keeps_newest, is_ring = plan["keep_newest"] == "1", plan["is_ring"] == "1"
        # A ring without a tmpfs lies in mapped files on the disk: they do not grow.
        memory = f"{self._folder}/{name}" if plan["memory"] == "1" or is_ring else ""
        segments = f"{plan['disk']}/{name}.segments"
        ring_bytes = limit if is_ring else 0
        native.start_stream(memory, segments, _MOST_MEMORY, ring_bytes, seconds)
        self._window = native.open_window(limit, keeps_newest, is_ring, seconds)
        self._modules = 0
        self._parent: dict[str, object] = {}
        self._note_facts()
        self._note_name()
        if plan["gc_ns"]:
            self._pauses = native.GcWatch(int(plan["gc_ns"]))
            self._gc_callback = self._pauses.callback()
            self._gc.callbacks.append(self._gc_callback)
        if plan["tasks"] == "1":
            native.start_tasks()
        self._begin_stacks(plan["stacks"])
        self._held_memory: Any = native.HeapSamples() if plan.get("held_memory") == "1" else None
        if self._held_memory is not None:
            self._held_memory.start(with_python=True)
        self._sampler: Any = None
        if int(plan["sample_ns"]):
            self._sampler = native.Sampler(
                interval_ns=int(plan["sample_ns"]),
                budget=float(plan["sample_budget"]),
                limit_bytes=limit,
                keep_newest=keeps_newest,
                way="best",
                operations=list(bytes.fromhex(plan["operations"])),
                age_ns=int(seconds * 1e9),
            )
            obstacle = self._sampler.start()
            if obstacle:
                self.notify(f"what threads do is not sampled: {obstacle}")
        self._budget: Any = None
        if plan.get("budget"):
            budget = _loaded("record/budget.py").Budget
            share, event_ns = float(plan["budget"]), float(plan["event_ns"])
            self._budget = budget(share, event_ns, self._turn_off, self.notify)
        native.set_stream_ticker(self._tell, self._budget is not None)
        native.restart_window(self._window)
        self._begun_ns = native.now_ns()

    def _begin_stacks(self, mode: str) -> None:
        if mode == "none":
            return
        self._native.start_stacks()
        if mode != "operators":
            obstacle = self._native.start_calls(mode == "all-calls", False)
            if obstacle:
                self.notify(f"Python calls are not recorded, only stacks of operators: {obstacle}")

    # ---- what is noted of the process

    def _tell(self) -> None:
        """Note what has changed; called every second, and when the process ends."""
        if os.getpid() != self._pid:
            return
        if len(sys.modules) != self._modules:
            self._note_facts()
        self._note_threads()
        self._note_name()
        if self._frameworks is not None:
            self._note(SOURCES, self._frameworks.describe())
        if self._budget is not None:
            seen = self._native.look_at_window(self._window)
            self._budget.look(len(seen) + seen.lost, self._native.now_ns())
        obstacle = self._native.stream_obstacle()
        if obstacle:
            self.notify(f"the recording cannot be written to disk, and stays in memory: {obstacle}")

    def _note_name(self) -> None:
        self._note(PROCESS, {"name": self._facts.process_name(target_of(sys.orig_argv))})

    def _note_facts(self) -> None:
        self._modules = len(sys.modules)
        facts = self._facts.raw_facts()
        if not self._parent:  # which may have ended, later
            self._parent = {name: facts[name] for name in ("ppid", "parent_start_ticks")}
        self._note(FACTS, {**facts, **self._parent})
        prefixes = self._facts.path_prefixes(_target(sys.orig_argv), _site_folders())
        library = os.path.dirname(os.__file__) + "/"
        self._native.set_paths(prefixes, _PACKAGE + "/", library)
        self._note(PATHS, {"told": [prefixes, _PACKAGE + "/", library]})

    def _note_threads(self) -> None:
        threading: Any = sys.modules.get("threading")
        for thread in list(getattr(threading, "_active", {}).values()):
            number = getattr(thread, "native_id", None)
            if number is not None:
                self._thread_names[str(number)] = str(thread.name)
        self._note(THREADS, self._thread_names)

    def _note(self, name: str, value: object) -> None:
        self._native.note_value_in_stream(name, value)

    def notify(self, line: str) -> None:
        """Keep a line for the user, which is shown with the answer."""
        if line not in self._notices:
            self._notices.append(line)
            self._note(NOTICES, {"lines": self._notices})

    def _watch_threads(self) -> None:
        """Note exceptions that end threads; an exception that ends the program is noted anyway."""
        threading: Any = sys.modules["threading"]
        theirs = threading.excepthook

        def excepthook(args: "Any") -> None:
            theirs(args)
            if args.exc_type is not SystemExit:
                self._failures.append(self._facts.text_of(args.exc_type, args.exc_value))
                self._note(FAILURES, {"lines": self._failures})

        threading.excepthook = excepthook

    def _turn_off(self, burden: str) -> bool:
        """Turn off an expensive part of the recording; return whether it was on."""
        native, mode = self._native, self._plan["stacks"]
        budget: Any = sys.modules["stepscope.record.budget"]
        if burden == budget.CALLS and mode != "none":
            native.stop_stacks()
            if mode != "operators":
                native.stop_calls()
            return True
        if burden == budget.SAMPLES and self._sampler is not None:
            self._sampler.stop()
            return True
        return self._frameworks is not None and bool(self._frameworks.turn_off(burden))

    # ---- frameworks

    def imported(self, name: str) -> None:
        """Start recording a framework that has been imported."""
        if name == "threading":
            self._watch_threads()
            return
        try:
            if name == "numpy":
                self._native.sample_arrays()
                return
            if self._frameworks is None:
                self._frameworks = _imported_recorder(self._plan["frameworks"], self)
            self._frameworks.begin(name, self._plan)
            self._note(SOURCES, self._frameworks.describe())
            self._hooks += 1
            # The framework resets its own state in a forked child before this hook runs.
            number = self._hooks
            shielded = self._native.shielded
            os.register_at_fork(
                after_in_child=shielded(lambda: self._begin_frameworks_in_child(number))
            )
        except Exception as error:
            self.notify(f"{name} is not recorded: {type(error).__name__}: {error}")

    def _library_opens(self, name: object) -> None:
        """Start recording devices when ctypes is about to load CUDA, which shows in no import."""
        triggers: Any = sys.modules["stepscope.record.triggers"]
        if any(module in sys.modules for module in triggers.BEGIN_DEVICES):
            return  # they load it themselves, in the middle of their import
        library = triggers.CUDA_LIBRARY
        if library in self._triggers and os.path.basename(str(name)).startswith(triggers.OF_CUDA):
            del self._triggers[library]
            self.imported(library)

    # ---- ends

    def finish(self) -> None:
        """End in order: everything that the process knows is written to its stream."""
        if os.getpid() != self._pid:
            return
        native = self._native
        native.set_stream_ticker(None)
        if self._frameworks is not None:
            self._frameworks.stop(f"{self._plan['disk']}/{self._name}")
        if self._sampler is not None:
            self._sampler.stop()
        if self._held_memory is not None:
            self._held_memory.stop()
        ended = {"error": self._facts.last_error(), "found_program": self._facts.found_program()}
        self._note(END, {**self._totals(), **ended})
        self._modules = 0  # note the facts once more
        self._tell()
        native.stop_stream()

    def _totals(self) -> "dict[str, int]":
        """Return how much was recorded, and for how long."""
        events = self._native.look_at_window(self._window)
        return {
            "events": len(events) + events.lost,
            "ns": self._native.now_ns() - self._begun_ns,
        }

    def _rest(self) -> None:
        """End our threads before the main thread forks; others would not see them go on at once."""
        is_main = _builtin("_thread").get_native_id() == self._pid
        if self._rests or os.getpid() != self._pid or not is_main:
            return
        self._rests = True
        most = self._facts.count_threads() - 1 - (self._sampler is not None)
        self._native.rest_stream()
        if self._sampler is not None:
            self._sampler.rest()
        for _ in range(_LOOKS_FOR_THREADS):  # a thread is counted for some µs after it was joined
            if self._facts.count_threads() <= most:
                break
            os.sched_yield()

    def _go_on(self) -> None:
        if self._rests:
            self._rests = False
            self._native.go_on_with_stream()
            if self._sampler is not None:
                self._sampler.go_on()

    def _begin_in_child(self) -> None:
        self._rests = False
        self._thread_names, self._notices, self._failures = {}, [], []
        if self._plan["gc_ns"] and self._gc_callback in self._gc.callbacks:
            self._gc.callbacks.remove(self._gc_callback)
        self._native.forget_tasks_after_fork()
        self._native.forget_calls_after_fork()
        self._begin()
        self._end_with_multiprocessing()

    def _end_with_multiprocessing(self) -> None:
        """Finish when multiprocessing ends this process: it leaves without atexit."""
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, Agent._finalize_last)

    def _finalize_last(self) -> None:
        util: Any = sys.modules["multiprocessing.util"]
        util.Finalize(None, self.finish, exitpriority=-1000)

    def _begin_frameworks_in_child(self, hook: int) -> None:
        """Record the frameworks again in a forked child: the last hook runs after all clean-ups."""
        if hook == self._hooks and self._frameworks is not None:
            self._frameworks.after_fork_in_child()


def target_of(words: "list[str]") -> str:
    """Return what Python was told to run: the name of a file, a module, or ``-c``."""
    word = _target(words)
    return os.path.basename(word.rstrip("/")) or word


def _target(words: "list[str]") -> str:
    at = 1
    while at < len(words):
        word = words[at]
        if word in ("-m", "-X", "-W", "--check-hash-based-pycs"):
            at += 1
            if word == "-m":
                return words[at] if at < len(words) else word
        elif word == "-" or word.startswith("-c"):
            return word[:2]
        elif word.startswith("-m"):
            return word[2:]
        elif not word.startswith("-"):
            return word
        at += 1
    return "python"


def _native() -> "Any":
    """Load the extension by its path."""
    had_atexit = "atexit" in sys.modules
    native = _loaded(f"_native{_extension_suffix()}", "stepscope._native")
    if not had_atexit:  # the program may have a module of that name
        sys.modules.pop("atexit", None)
    return native


def _extension_suffix() -> str:
    imp: Any = sys.modules["_imp"]
    for suffix in imp.extension_suffixes():
        if os.path.exists(f"{_PACKAGE}/_native{suffix}"):
            return str(suffix)
    raise RuntimeError(f"Stepscope is not built for Python {sys.version.split()[0]}")


def _loaded(file: str, name: str = "") -> "Any":
    """Load a file of the package under its own name, without the packages that it lies in."""
    name = name or "stepscope." + file.removesuffix(".py").replace("/", ".")
    if name not in sys.modules:
        for needed in _NEEDS.get(file, ()):
            _loaded(needed)
        external: Any = sys.modules["_frozen_importlib_external"]
        bootstrap: Any = sys.modules["_frozen_importlib"]
        spec = external.spec_from_file_location(name, f"{_PACKAGE}/{file}")
        bootstrap._load(spec)
    return sys.modules[name]


_NEEDS = {
    "record/facts.py": ("trace/variables.py", "trace/cores.py"),
}


def _builtin(name: str) -> "Any":
    """Return a built-in module, without making it known to the program."""
    if name in sys.modules:
        return sys.modules[name]
    imp: Any = sys.modules["_imp"]
    bootstrap: Any = sys.modules["_frozen_importlib"]
    spec = bootstrap.spec_from_loader(name, bootstrap.BuiltinImporter, origin="built-in")
    module = imp.create_builtin(spec)
    imp.exec_builtin(module)
    sys.modules.pop(name, None)
    return module


def _imported_recorder(place: str, agent: Agent) -> "Any":
    """Import the module that records frameworks; its notices are kept for the answer."""
    from stepscope.lazy import named

    recorder = named(place)
    notices: Any = sys.modules["stepscope.notices"]
    notices.listener = agent.notify
    return recorder


def _site_folders() -> "list[str]":
    """Return the folders of installed packages; none where the module ``site`` was not run."""
    site: Any = sys.modules.get("site")
    return [] if site is None else [*site.getsitepackages(), site.getusersitepackages()]


def _new_name(folder: str, disk: str, pid: int) -> str:
    """Make this process's folder; after an exec it gets a numbered one."""
    for image in range(_MOST_IMAGES):
        name = f"{pid}.{image}" if image else str(pid)
        if not os.path.exists(f"{disk}/{name}.segments"):
            try:
                os.mkdir(f"{folder}/{name}", 0o700)
            except FileExistsError:
                continue
            return name
    raise RuntimeError("this process has run too many programs")


def _hide_start_folder() -> None:
    """Show the program the PYTHONPATH that its user has set.

    A program that it starts with a copy of this environment is still recorded, where the package
    is installed: then Python finds its ``stepscope.pth``. Where it is not, nothing is hidden.
    """
    installed_in = os.path.dirname(_PACKAGE)
    if installed_in not in _site_folders() or not os.path.exists(f"{installed_in}/stepscope.pth"):
        return
    shown: Any = os.environ
    key = shown.encodekey("PYTHONPATH")
    folders = shown._data.get(key, b"").split(b":")
    ours = os.fsencode(f"{_INSIDE}/start")
    if ours not in folders:
        return
    rest = [folder for folder in folders if folder != ours]
    if len(folders) > 1:
        shown._data[key] = b":".join(rest)
    else:
        del shown._data[key]


def _is_own_command() -> bool:
    words = sys.orig_argv[1:]
    return words[:2] == ["-m", "stepscope"] or (
        words[:1] == ["-m"] and words[1].split(".")[:2] == ["stepscope", "cli"]
    )


def _complain(folder: str, error: Exception) -> None:
    text = f"process {os.getpid()} ({' '.join(sys.orig_argv)[:200]}) is not recorded: {error}\n"
    try:
        with open(f"{folder}/{os.getpid()}{OBSTACLE}", "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pass
