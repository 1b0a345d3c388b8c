"""Records torch.compile: compilations, graph breaks, and Inductor's kernels for the CPU.

Dynamo's marks of compiled regions are recorded with the operators. What torch reports only to its
own profiler (the phases of a compilation, calls of compiled graphs, Triton's launches) is requested
during a recording. Kernels that C++ calls (``cpp_wrapper``, AOTInductor) are not seen one by one:
they are part of their graph's call.
"""

from __future__ import annotations

import os
import sys
import threading
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from stepscope import _native
from stepscope._native import record_function
from stepscope.frameworks.torch.compile_log import CompileLog, Span
from stepscope.record.journal import Journal
from stepscope.record.options import HOST, INSIDE
from stepscope.record.patching import Patches, PatchesWhenImported
from stepscope.record.source import Source, Stage

if TYPE_CHECKING:
    from stepscope.record.limits import MemoryLimit
    from stepscope.record.options import RecordOptions
    from stepscope.record.stream.left_behind import LeftBehind
    from stepscope.trace.schema import Captured

_KERNEL_PREFIX = "cpp_"  # inductor's prefix for kernels in C++

_logs: list[CompileLog] = []  # the logs of all active recordings
os.register_at_fork(after_in_child=_native.shielded(_logs.clear))


class TorchCompile(Source):
    """Records compilations as slices of category ``compile``, and ranges in compiled regions."""

    name = "torch.compile"
    stage = Stage.OPERATORS
    when = HOST

    def __init__(self, *, is_inside: bool = False) -> None:
        self._is_inside = is_inside
        self._log = self._new_log()
        self._patches = (
            PatchesWhenImported("torch._dynamo", _dynamo),
            PatchesWhenImported("torch._inductor.async_compile", _inductor),
        )

    @classmethod
    def made_for(cls, options: RecordOptions, _limit: MemoryLimit | None) -> Source:
        return cls(is_inside=options[INSIDE])

    def start(self) -> None:
        self._log = self._new_log()
        _logs.append(self._log)
        for patches in self._patches:
            patches.start()

    def stop(self) -> None:
        for patches in self._patches:
            patches.stop()
        if self._log in _logs:
            _logs.remove(self._log)
            self._log.close(_native.now_ns())

    def collect(self) -> Captured | None:
        from stepscope.record.threads import thread_names

        return self._log.captured(thread_names())

    @classmethod
    def recover(cls, remains: LeftBehind) -> Captured | None:
        return CompileLog.restored(remains, cls.name).captured(remains.thread_names)

    def describe(self) -> str:
        return self._log.describe()

    def _new_log(self) -> CompileLog:
        return CompileLog(Journal(self.name, is_on=self._is_inside))


# ---- dynamo


def _patch_dynamo(patches: Patches) -> None:
    torch = sys.modules["torch"]
    if hasattr(torch._C._profiler, "_RecordFunctionFast"):
        _make_annotations_ranges(patches, torch)
    logger = getattr(sys.modules.get("torch._dynamo.utils"), "CompileEventLogger", None)
    if hasattr(logger, "add_record_function_data"):
        _drop_metadata_ranges(patches, logger, torch)
    handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
    if hasattr(handler, "install_callbacks"):
        _name_compilations(patches, handler)
    convert = sys.modules.get("torch._dynamo.symbolic_convert")
    translator = getattr(convert, "InstructionTranslatorBase", None)
    if hasattr(translator, "log_graph_break"):
        _log_graph_breaks(patches, translator)


def _make_annotations_ranges(patches: Patches, torch: Any) -> None:
    """Turn torch's annotations into our ranges: torch drops them unless its own profiler runs."""
    profiler, native = torch.autograd.profiler, torch._C._profiler
    theirs = native._RecordFunctionFast
    wanted = bool(profiler._is_profiler_enabled)

    def annotation(name: str, *details: Any, **more: Any) -> Any:
        # Torch's own profiler needs the original; what it receives reaches us as operators do.
        torch_records = torch._C._autograd._profiler_enabled()
        scope = theirs(name, *details, **more) if torch_records else record_function(name)
        return _Compilation(scope, name) if name in _WHOLE_COMPILATIONS else scope

    def remember(enable: bool) -> None:
        nonlocal wanted
        wanted = enable

    def give_back() -> None:
        profiler._is_profiler_enabled = wanted

    patches.replace(native, "_RecordFunctionFast", annotation)
    patches.replace(profiler, "_set_is_profiler_enabled", remember)
    profiler._is_profiler_enabled = True
    patches.on_undo(give_back)


# Torch's names for whole compilations, and whether they are of a backward pass.
_WHOLE_COMPILATIONS = {"dynamo": False, "entire_backward_compile": True}


class _Compilation:
    """A compilation from its start, before torch has given it an id, to its end."""

    def __init__(self, scope: Any, name: str) -> None:
        self._scope = scope
        self._is_backward = _WHOLE_COMPILATIONS[name]
        self._spans: list[tuple[CompileLog, Span]] = []

    def __enter__(self) -> _Compilation:
        now_ns, thread = _native.now_ns(), threading.get_native_id()
        self._spans = [(log, log.begin(thread, now_ns, self._is_backward)) for log in _logs]
        self._scope.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._scope.__exit__(*error)
        now_ns = _native.now_ns()
        for log, span in self._spans:
            log.end(span, now_ns)


def _drop_metadata_ranges(patches: Patches, logger: Any, torch: Any) -> None:
    """Stop torch from reporting each phase's metadata as the name of another range."""
    theirs = logger.add_record_function_data

    def add_record_function_data(event_name: str, **metadata: object) -> None:
        if torch._C._autograd._profiler_enabled():
            theirs(event_name, **metadata)

    patches.replace(logger, "add_record_function_data", staticmethod(add_record_function_data))


def _name_compilations(patches: Patches, handler: Any) -> None:
    theirs = handler.install_callbacks

    def install_callbacks(*args: Any) -> Any:
        for log in _logs if len(args) == 2 else ():  # older versions of torch do not pass the id
            log.name_innermost(threading.get_native_id(), args[1])
        return theirs(*args)

    patches.replace(handler, "install_callbacks", install_callbacks)


def _log_graph_breaks(patches: Patches, translator: Any) -> None:
    theirs = translator.log_graph_break

    def log_graph_break(self: Any, code_options: Any, reason: str = "", exc: Any = None) -> None:
        if not getattr(exc, "logged", False):
            where = _place(self, exc)
            kind = getattr(exc, "gb_type", None) or reason.partition("\n")[0]
            for log in _logs:
                log.graph_break(threading.get_native_id(), _native.now_ns(), kind, where, reason)
        theirs(self, code_options, reason, exc)

    patches.replace(translator, "log_graph_break", log_graph_break)


def _place(translator: Any, exc: Any) -> tuple[str, int]:
    stack = getattr(exc, "real_stack", None)
    if stack:
        return stack[-1].filename, stack[-1].lineno or 0
    return translator.f_code.co_filename, getattr(translator, "lineno", None) or 0


_dynamo = Patches(_patch_dynamo)


# ---- inductor


def _patch_inductor(patches: Patches) -> None:
    """Put a range around every C++ kernel that a generated module calls by a global name."""
    compiler = sys.modules["torch._inductor.async_compile"].AsyncCompile
    theirs = compiler.wait

    def wait(self: Any, scope: dict[str, Any]) -> None:
        theirs(self, scope)
        _range_kernels(patches, scope)

    patches.replace(compiler, "wait", wait)
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    for module in getattr(cache, "modules", ()):
        _range_kernels(patches, vars(module))


def _range_kernels(patches: Patches, scope: dict[str, Any]) -> None:
    for name, kernel in list(scope.items()):
        if name.startswith(_KERNEL_PREFIX) and isinstance(kernel, BuiltinFunctionType):
            patches.replace_item(scope, name, _ranged(name, kernel))


def _ranged(name: str, kernel: Any) -> Any:
    scope = record_function(name)

    def call(*args: Any) -> Any:
        with scope:
            return kernel(*args)

    return call


_inductor = Patches(_patch_inductor)
