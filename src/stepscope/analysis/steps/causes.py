"""What a sampled thread is doing, in the words of an engineer: computing, preparing, waiting."""

from __future__ import annotations

import re
from enum import IntEnum

from stepscope.analysis.base.landmarks import landmarks
from stepscope.analysis.calls.stated_parts import Part
from stepscope.analysis.code.own_lines import Place, generator_of
from stepscope.analysis.code.sampled_stacks import (
    SampledStack,
    any_in,
    any_of,
    is_one_of,
    last_name,
    package_of,
)
from stepscope.trace.model import ThreadState, WaitReason


class Cause(IntEnum):
    """What a moment of a thread was spent on."""

    DATA_LOADING = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3
    COMMUNICATION = 4
    COPIES = 5
    IDLE = 6  # the device waits, and it is not known for what
    OTHER = 7
    PYTHON = 8  # Python code of the program, or of a library that is no framework
    NATIVE = 9  # a native function that is no operator
    LIBRARY = 10  # Python code of a framework, outside of the model's phases
    SLEEP = 11
    LOCK = 12
    QUEUE = 13
    FILE = 14
    SOCKET = 15
    PROCESS = 16
    GIL = 17
    COLLECTION = 18
    CHECKPOINT = 19
    LOGGING = 20
    TENSOR_TEXT = 21  # print(tensor)
    COMPILE = 22
    IMPORT = 23
    POLL = 24  # an event loop that waits for events
    CHILDREN = 25  # the processes that it has forked
    CORE = 26  # it could run, but other threads have all cores
    OPERATORS = 27  # that are no part of the model: they make a batch, clip gradients, ...

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Cause.DATA_LOADING: "data loading",
    Cause.FORWARD: "forward",
    Cause.BACKWARD: "backward",
    Cause.OPTIMIZER: "optimizer",
    Cause.COMMUNICATION: "communication",
    Cause.COPIES: "copies",
    Cause.IDLE: "device idle",
    Cause.OTHER: "other",
    Cause.PYTHON: "Python code",
    Cause.NATIVE: "C code that Python calls",
    Cause.LIBRARY: "framework code outside the model",
    Cause.SLEEP: "sleeping",
    Cause.LOCK: "waiting for a lock or thread",
    Cause.QUEUE: "waiting for a queue",
    Cause.FILE: "reading and writing files",
    Cause.SOCKET: "waiting for a socket",
    Cause.PROCESS: "waiting for a child process",
    Cause.GIL: "waiting for the GIL",
    Cause.COLLECTION: "garbage collection",
    Cause.CHECKPOINT: "saving checkpoints",
    Cause.LOGGING: "logging and printing",
    Cause.TENSOR_TEXT: "printing tensors",
    Cause.COMPILE: "compiling",
    Cause.IMPORT: "importing",
    Cause.POLL: "waiting for events",
    Cause.CHILDREN: "waiting for its child processes",
    Cause.CORE: "waiting for a core",
    Cause.OPERATORS: "operators outside the model",
}

WAITS = (
    *(Cause.SLEEP, Cause.LOCK, Cause.QUEUE, Cause.FILE, Cause.SOCKET, Cause.PROCESS, Cause.GIL),
    *(Cause.POLL, Cause.CHILDREN),
)
COMPUTING = (Cause.FORWARD, Cause.BACKWARD, Cause.OPTIMIZER, Cause.OPERATORS)
PHASES = (
    *(Cause.DATA_LOADING, Cause.FORWARD, Cause.BACKWARD, Cause.OPTIMIZER, Cause.COMMUNICATION),
)

_OF_WAIT = {
    WaitReason.UNKNOWN: Cause.LOCK,
    WaitReason.SLEEP: Cause.SLEEP,
    WaitReason.LOCK: Cause.LOCK,
    WaitReason.FILE: Cause.FILE,
    WaitReason.SOCKET: Cause.SOCKET,
    WaitReason.PIPE: Cause.PROCESS,
    WaitReason.PROCESS: Cause.PROCESS,
    WaitReason.POLL: Cause.POLL,
}

_IMPORTLIB = "<frozen importlib"
_PRINTING = frozenset({"print", "sys.stdout.write", "sys.stderr.write"})
_QUEUES = frozenset({"queue.py", "multiprocessing/queues.py", "multiprocessing/connection.py"})
_THREADING = (
    *("threading.py", "queue.py", "_weakrefset.py", "concurrent/", "multiprocessing/", "asyncio/"),
    *("socketserver.py", "selectors.py", "subprocess.py", "ssl.py", "socket.py"),
)
_LOCKING = frozenset(
    {"acquire", "wait", "wait_for", "join", "get", "put", "result", "__enter__", "select", "poll"}
    | {"flock", "lockf", "fcntl", "lock"}  # of files
)
_SELECTORS, _POLLS = "selectors.py", (".poll", ".select", ".control")
EVENT_LOOPS = ("asyncio/", "uvloop/", "tornado/", "trio/", "selectors.py", "socketserver.py")
_FILE_MODULES = frozenset(
    {"pathlib.py", "shutil.py", "glob.py", "tempfile.py", "genericpath.py", "os.py", "fnmatch.py"}
)
_FILE_CALL = re.compile(r"(open|file|f|fh|handle|out|stream|os|shutil|path)(\.|$)")


def cause_of_stack(stack: SampledStack) -> Cause | None:
    """Return the cause that a stack alone shows; None if it shows none."""
    beyond, marks = stack.beyond, landmarks()
    if any(frame.file.startswith(_IMPORTLIB) for frame in beyond):
        return Cause.IMPORT
    if any_of(beyond, marks.first_uses):
        return Cause.IMPORT
    is_compiled = any(generator_of(frame.file) for frame in beyond)  # compiled code runs
    if any_in(beyond, marks.compilers) and not is_compiled:
        return Cause.COMPILE
    if any_in(beyond, marks.tensor_text):
        return Cause.TENSOR_TEXT
    if any_of(beyond, marks.savers) or stack.callee in marks.saving_calls:
        return Cause.CHECKPOINT
    if any_in(beyond, marks.loggers) or stack.callee in _PRINTING:
        return Cause.LOGGING
    return None


def phase_of_stack(stack: SampledStack) -> Cause | None:
    """Return the phase of training that the framework's functions on a stack show."""
    marks = landmarks()
    for frame in reversed(_closure(stack) or stack.frames):  # the innermost decides
        if frame.file.startswith(marks.loaders):
            return Cause.DATA_LOADING
        if frame.file.startswith(marks.optimizers):
            return Cause.OPTIMIZER
        if frame.file.startswith(marks.communication):
            return Cause.COMMUNICATION
        if is_one_of(frame, marks.backward):
            return Cause.BACKWARD
        if is_one_of(frame, marks.module_calls) or is_one_of(frame, marks.module_leads):
            return Cause.FORWARD
    return None


def _closure(stack: SampledStack) -> tuple[Place, ...]:
    """Return the frames of a closure that an optimizer's step calls; () if none.

    Lightning runs a whole training step in there.
    """
    frames, marks = stack.frames, landmarks()
    optimizers = (i for i, frame in enumerate(frames) if frame.file.startswith(marks.optimizers))
    last = max(optimizers, default=-1)
    inner = frames[last + 1 :] if last >= 0 else ()
    called = (i for i, frame in enumerate(inner) if package_of(frame) not in marks.with_operators)
    inner = inner[next(called, len(inner)) :]
    # An optimizer of the program's own is called by torch's wrapper.
    return inner if inner and last_name(inner[0]) != "step" else ()


def cause_of_moment(
    stack: SampledStack,
    state: int,
    wait: int,
    part: int,
    *,
    in_operator: bool,
    is_beside: bool,
    in_gap: bool,
) -> Cause:
    """Return the cause of a sampled moment.

    ``part`` is that of the slices then running; ``is_beside``: the operator is no part of the
    model (see ``beside_the_model``); ``in_gap``: no operator has run for a while, nor
    will soon, so that the Python code is more than the glue between two operators.
    """
    cause, frameworks = cause_of_stack(stack), landmarks().packages
    if cause is not None or state == ThreadState.READY:
        return Cause.CORE if cause is None else cause
    by_stack = part == Part.OTHER or (part == Part.OPTIMIZER and bool(_closure(stack)))
    phase = phase_of_stack(stack) if by_stack else Cause(part)
    if phase in (Cause.DATA_LOADING, Cause.COMMUNICATION):
        return phase
    if state == ThreadState.GIL:
        return Cause.GIL
    if phase is Cause.OPTIMIZER:
        return phase
    if in_operator or (phase is not None and not in_gap):
        unstated = Cause.OPERATORS if is_beside else Cause.FORWARD
        return unstated if phase is None or phase is Cause.OTHER else phase
    if phase is Cause.BACKWARD and stack.library in frameworks:
        return phase  # the engine works on another thread
    if state == ThreadState.BLOCKED:
        return _cause_of_wait(stack, wait)
    if stack.library in frameworks:
        if phase not in (None, Cause.OTHER):
            return phase
        if not stack.callee:
            return Cause.LIBRARY
    if stack.beyond and stack.beyond[-1].file == _SELECTORS and stack.callee.endswith(_POLLS):
        return Cause.POLL  # it has events by now, but no core yet
    if _touches_files(stack):
        return Cause.FILE
    return Cause.NATIVE if state == ThreadState.NATIVE or stack.callee else Cause.PYTHON


def _cause_of_wait(stack: SampledStack, wait: int) -> Cause:
    files = {frame.file for frame in stack.beyond}
    if any_of(stack.beyond, landmarks().children):
        return Cause.CHILDREN
    if not files.isdisjoint(_QUEUES):
        return Cause.QUEUE
    if "subprocess.py" in files:
        return Cause.PROCESS
    cause = _OF_WAIT[WaitReason(wait)]
    if cause is Cause.POLL and not any(file.startswith(EVENT_LOOPS) for file in files):
        return Cause.SOCKET
    if cause is Cause.LOCK and stack.callee.endswith("sleep"):
        return Cause.SLEEP
    if cause is Cause.LOCK and _computes_in_threads(stack):
        return Cause.NATIVE
    return cause


def _computes_in_threads(stack: SampledStack) -> bool:
    """Tell whether an apparent lock is native code that waits for its own threads.

    A library that has Python threads wait uses those of Python for it; JAX computes in a thread.
    """
    if not stack.callee or stack.callee.rpartition(".")[2] in _LOCKING:
        return False
    return not stack.beyond or not stack.beyond[-1].file.startswith(_THREADING)


def _touches_files(stack: SampledStack) -> bool:
    """Tell whether the running code reads or writes files without blocking."""
    if stack.beyond:
        return stack.beyond[0].file in _FILE_MODULES
    return _FILE_CALL.match(stack.callee) is not None
