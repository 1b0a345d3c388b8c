"""Looks at a program's first steps: its loop, its models and loaders, and where its time goes.

The program is profiled by Python's own hook, at whatever cost: no time that is claimed comes from
here. Functions that take long are checked for inputs that come again.
"""

import contextlib
import gc
import os
import random
import sys
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DEAR_S = 0.02  # a function that has taken so long is looked at
_SHORTEST_CALL_S = 30e-6
_IN_WRITE = ("write", "writelines", "send", "sendall", "put", "dump")
_CLOCKS = {"time", "perf_counter", "monotonic", "process_time", "time_ns", "perf_counter_ns"}
_MOST_REASONS = 40


class Function:
    """Calls of one function of the program, and what is known about their inputs."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.calls = 0
        self.seconds = 0.0
        self.inputs: Any = None  # once the function is looked at
        self.function: Any = None
        self.results: dict[Any, Any] = {}
        self.repeats = 0
        self.repeated_seconds = 0.0
        self.looked_seconds = 0.0
        self.obstacle = _static_obstacle(code)


class Survey:
    """The facts about one run of the program."""

    def __init__(self, agent: "Any") -> None:
        self._agent = agent
        self._began = time.perf_counter()
        self._deadline = self._began + agent.plan["seconds"]
        self._roots = tuple(agent.plan["roots"])
        self._own: dict[types.CodeType, bool] = {}
        self._functions: dict[types.CodeType, Function] = {}
        self._stack: list[list[Any]] = []
        self._builtin_calls: dict[tuple[str, str, int], list[Any]] = {}
        self._steps: dict[str, list[float]] = {}
        self._loops: dict[str, list[list[Any]]] = {}
        self._models: dict[int, dict[str, Any]] = {}
        self._constructed: dict[str, dict[str, Any]] = {}
        self._gc_s, self._gc_since = 0.0, 0.0
        self._is_busy = False
        self._is_finished = False
        gc.callbacks.append(self._collecting)
        sys.setprofile(self._profile)

    def is_library(self, path: "str | None") -> bool:
        return path is None or not path.startswith(self._roots) or "site-packages" in path

    @contextlib.contextmanager
    def unprofiled(self) -> "Iterator[None]":
        """Import a library at its usual speed; its time does not count."""
        profile = sys.getprofile()
        sys.setprofile(None)
        began = time.perf_counter()
        try:
            yield
        finally:
            if profile is not None:
                paused = time.perf_counter() - began
                self._deadline += paused
                self._began += paused
                sys.setprofile(profile)

    # ---- steps

    def end_step(self, kind: str, now: float) -> None:
        times = self._steps.setdefault(kind, [])
        times.append(now - self._began)
        if len(times) == 2:
            self._loops[kind] = self._frames(sys._getframe(2))
        if now > self._deadline:
            self.finish(is_whole=False)
            os._exit(0)

    def _frames(self, frame: "Any") -> "list[list[Any]]":
        """Return the places of the program's own frames, innermost first."""
        places = []
        while frame is not None:
            if self._is_own(frame.f_code):
                places.append(_place(frame))
            frame = frame.f_back
        return places

    def _is_own(self, code: types.CodeType) -> bool:
        is_own = self._own.get(code)
        if is_own is None:
            name = code.co_filename
            path = os.path.abspath(name)
            is_own = not name.startswith("<") and any(
                path.startswith(root + "/") for root in self._roots
            )
            is_own = is_own and "site-packages" not in path and "/stepscope/" not in path
            self._own[code] = is_own
        return is_own

    # ---- modules, optimizers, loaders

    def module_called(
        self, number: int, module: "Any", inputs: "tuple[Any, ...]", seconds: float
    ) -> None:
        torch: Any = sys.modules["torch"]
        facts = self._models.get(number)
        if facts is None:
            frames = self._frames(sys._getframe(2))
            forward: Any = getattr(type(module).forward, "__code__", None)
            parameters = list(module.parameters())
            facts = self._models[number] = {
                "class": type(module).__name__,
                "site": frames[0] if frames else None,
                "frames": frames,
                "forward": [os.path.abspath(forward.co_filename), forward.co_firstlineno]
                if forward is not None and self._is_own(forward)
                else None,
                "inputs": [str(getattr(item, "dtype", "")) for item in inputs],
                "dtypes": sorted({str(item.dtype) for item in parameters}),
                "calls": 0,
                "seconds": 0.0,
                "without_training": 0,
            }
        facts["calls"] += 1
        facts["seconds"] += seconds
        if torch.is_grad_enabled() and not module.training:
            facts["without_training"] += 1

    # ---- calls

    def _profile(self, frame: "Any", event: str, argument: "Any") -> None:
        if self._is_busy:
            return
        if not self._steps and time.perf_counter() > self._deadline + self._deadline - self._began:
            self.finish(is_whole=False)  # no step has ended in twice the time
            os._exit(0)
        if event == "call":
            if self._is_own(frame.f_code):
                self._called(frame)
            elif frame.f_code.co_name == "__init__":
                self._maybe_constructed(frame)
        elif event == "return":
            if self._stack and self._stack[-1][0] is frame:
                self._returned(argument)
        elif event == "c_call":
            if self._own.get(frame.f_code):
                self._stack.append([argument, time.perf_counter(), None, None, frame])
                self._taint(argument)
        elif self._stack and self._stack[-1][0] is argument and self._own.get(frame.f_code):
            _, began, _, _, caller = self._stack.pop()
            name = f"{getattr(argument, '__module__', '') or ''}.{argument.__name__}"
            key = (name, caller.f_code.co_filename, caller.f_lineno)
            entry = self._builtin_calls.get(key)
            if entry is None:
                entry = self._builtin_calls[key] = [0, 0.0, _place(caller)]
            entry[0] += 1
            entry[1] += time.perf_counter() - began

    def _called(self, frame: "Any") -> None:
        code = frame.f_code
        function = self._functions.get(code)
        if function is None:
            function = self._functions[code] = Function(code)
            if _writes_global(code):
                self._obstruct("a function that it calls changes a global")
        key = None
        if function.inputs is not None and not function.obstacle:
            key = self._key(function, frame)
        elif (
            not function.obstacle
            and function.calls >= 2
            and function.seconds > _DEAR_S
            and function.seconds / function.calls > _SHORTEST_CALL_S
        ):
            self._look_at(function)
        self._stack.append([frame, time.perf_counter(), function, key, None])

    def _returned(self, result: "Any") -> None:
        frame, began, function, key, _ = self._stack.pop()
        seconds = time.perf_counter() - began
        function.calls += 1
        function.seconds += seconds
        if key is not None:
            self._compare(function, frame, key, result, seconds)

    def _look_at(self, function: Function) -> None:
        self._is_busy = True
        try:
            from stepscope import remember

            for candidate in gc.get_referrers(function.code):
                if (
                    isinstance(candidate, types.FunctionType)
                    and candidate.__code__ is function.code
                ):
                    function.function = candidate
                    function.inputs = remember.Inputs(candidate)
                    return
            function.obstacle = "its function is not found"
        finally:
            self._is_busy = False

    def _key(self, function: Function, frame: "Any") -> "Any":
        self._is_busy = True
        try:
            code, values = function.code, frame.f_locals
            count = code.co_argcount + code.co_kwonlyargcount
            names = list(code.co_varnames[:count])
            variadic = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
            names += code.co_varnames[count : count + variadic]
            arguments = tuple(values[name] for name in names)
            return (function.inputs.key(arguments, {}), _random_states())
        except Exception as error:
            function.obstacle = f"its inputs cannot be compared ({type(error).__name__} {error})"
            return None
        finally:
            self._is_busy = False

    def _compare(
        self, function: Function, frame: "Any", key: "Any", result: "Any", seconds: float
    ) -> None:
        from stepscope import remember

        if function.obstacle:
            return
        self._is_busy = True
        try:
            function.looked_seconds += seconds
            if _random_states() != key[1]:
                function.obstacle = "it draws random numbers"
                return
            try:
                remember.copied(result)
                content = function.inputs._part(result, 0)
            except (remember.UnknownInputError, TypeError):
                function.obstacle = "its result cannot be copied"
                return
            if result is None:
                function.obstacle = "it returns nothing"
                return
            earlier = function.results.get(key[0])
            if earlier is not None:
                function.repeats += 1
                function.repeated_seconds += seconds
                if earlier != content:
                    function.obstacle = "equal inputs gave different results"
            elif len(function.results) < 4096:
                function.results[key[0]] = content
        finally:
            self._is_busy = False
        if not function.obstacle:
            again = self._key_after(function, frame)
            if again is not None and again != key[0]:
                function.obstacle = "it changes its inputs"

    def _key_after(self, function: Function, frame: "Any") -> "Any":
        """Return the key of the same objects after the call; None if a name was bound anew."""
        rebound = set(function.code.co_varnames[: function.code.co_argcount])
        if rebound & _stored(function.code):
            return None
        key = self._key(function, frame)
        return key[0] if key is not None else None

    def _taint(self, called: "Any") -> None:
        """Functions that write, or read a clock, are not remembered."""
        name = getattr(called, "__name__", "")
        module = getattr(called, "__module__", "") or ""
        owner = type(getattr(called, "__self__", None)).__module__
        if name == "print" or (name in _IN_WRITE and owner in {"_io", "_socket", "socket"}):
            self._obstruct("it writes")
        elif module == "time" and name in _CLOCKS:
            self._obstruct("it reads a clock")

    def note_write(self) -> None:
        self._obstruct("it writes a file")

    def _obstruct(self, reason: str) -> None:
        for entry in self._stack:
            if entry[2] is not None and not entry[2].obstacle:
                entry[2].obstacle = reason

    def _maybe_constructed(self, frame: "Any") -> None:
        """Note where the program makes an optimizer or a loader."""
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename == self._agent.file:
            caller = caller.f_back  # the agent stands between
        if caller is None or not self._is_own(caller.f_code):
            return
        torch: Any = sys.modules.get("torch")
        this = frame.f_locals.get("self")
        optim = getattr(torch, "optim", None)
        data = sys.modules.get("torch.utils.data")
        kind = ""
        if optim is not None and isinstance(this, optim.Optimizer):
            kind = "optimizer"
        elif data is not None and isinstance(this, data.DataLoader):
            kind = "loader"
        if not kind:
            return
        values = {
            name: value
            for name, value in frame.f_locals.items()
            if isinstance(value, int | float | str | bool | type(None))
        }
        place = _place(caller)
        self._constructed.setdefault(
            f"{kind} {place}",
            {"kind": kind, "class": type(this).__name__, "site": place, "options": values},
        )

    def _collecting(self, phase: str, _: object) -> None:
        if sys.getprofile() is None:  # a library is imported
            return
        now = time.perf_counter()
        if phase == "start":
            self._gc_since = now
        else:
            self._gc_s += now - self._gc_since

    # ---- the end

    def finish(self, *, is_whole: bool = True) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        sys.setprofile(None)
        gc.callbacks.remove(self._collecting)
        torch: Any = sys.modules.get("torch")
        functions = sorted(self._functions.values(), key=lambda function: -function.seconds)
        self._agent.tell(
            "surveyed",
            seconds=time.perf_counter() - self._began,
            steps=self._steps,
            loops=self._loops,
            models=list(self._models.values()),
            constructed=list(self._constructed.values()),
            calls=[
                {"name": key[0], "count": count, "seconds": seconds, "site": site}
                for key, (count, seconds, site) in self._builtin_calls.items()
            ],
            functions=[_described(function) for function in functions[:_MOST_REASONS]],
            gc_seconds=self._gc_s,
            threads=torch.get_num_threads() if torch is not None else None,
            cores=len(os.sched_getaffinity(0)),
            files=sorted({code.co_filename for code, is_own in self._own.items() if is_own}),
            is_whole=is_whole,
            main=self._main(),
            is_torch=torch is not None,
        )

    def _main(self) -> str:
        main: Any = sys.modules.get("__main__")
        return os.path.abspath(getattr(main, "__file__", None) or "")


def _described(function: Function) -> "dict[str, Any]":
    code = function.code
    return {
        "name": code.co_qualname,
        "file": os.path.abspath(code.co_filename),
        "line": code.co_firstlineno,
        "seconds": function.seconds,
        "looked_seconds": function.looked_seconds,
        "repeats": function.repeats,
        "repeated_seconds": function.repeated_seconds,
        "obstacle": function.obstacle,
    }


def _place(frame: "Any") -> "list[Any]":
    """Return the file, the bounds in lines and columns, and the function of a frame's call."""
    code = frame.f_code
    line, end_line, column, end_column = list(code.co_positions())[frame.f_lasti // 2]
    file = os.path.abspath(code.co_filename)
    bounds = [line or frame.f_lineno, column or 0, end_line or frame.f_lineno, end_column or 0]
    return [file, *bounds, code.co_qualname]


def _static_obstacle(code: types.CodeType) -> str:
    if code.co_flags & (0x20 | 0x80 | 0x200):
        return "it is a generator or a coroutine"
    if code.co_name.startswith("<") or code.co_name in {"__init__", "__iter__", "__enter__"}:
        return "it is no function to remember"
    if _writes_global(code):
        return "it changes a global"
    if any(
        instruction in _names_of_operations(code) for instruction in ("STORE_ATTR", "DELETE_ATTR")
    ):
        return "it sets an attribute"
    if "STORE_DEREF" in _names_of_operations(code) and code.co_freevars:
        return "it changes a variable of another function"
    return ""


def _writes_global(code: types.CodeType) -> bool:
    return code.co_name != "<module>" and "STORE_GLOBAL" in _names_of_operations(code)


def _names_of_operations(code: types.CodeType) -> "set[str]":
    import dis

    return {dis.opname[code.co_code[place]] for place in range(0, len(code.co_code), 2)}


def _stored(code: types.CodeType) -> "set[str]":
    import dis

    return {
        code.co_varnames[instruction.arg or 0]
        for instruction in dis.get_instructions(code)
        if instruction.opname == "STORE_FAST"
    }


def _random_states() -> "tuple[Any, ...]":
    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    states: list[Any] = [hash(random.getstate())]
    if numpy is not None:
        state = numpy.random.get_state()
        states.append((state[1].tobytes(), state[2]))
    if torch is not None:
        states.append(torch.get_rng_state().numpy().tobytes())
    return tuple(states)
