"""Runs inside a program that `stepscope try` has started: notices steps, and waits for its turn.

The trial, in another process, holds the other end of a socket. A program that takes turns stops at
the end of each step, and goes on for as many steps as the trial grants. Times are taken from the
grant to the end of a step, so that the wait and the comparison of results belong to no step.

This file is loaded by its path before the program's first line, as the recorder is.
"""

import atexit
import gc
import json
import os
import random
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

VARIABLE = "STEPSCOPE_TRY"
SURVEY = "survey"
_MOST_DIGESTED_BYTES = 64 << 20


class Agent:
    """The steps of this process, and the line to the trial."""

    def __init__(self, plan: "dict[str, Any]") -> None:
        self.plan = plan
        self.file = __file__
        self.unit: str = plan["unit"]
        self._pid = os.getpid()
        self._fd: int = plan["fd"]
        os.set_inheritable(self._fd, False)
        self._granted = 0
        self._times: list[float] = []
        self._results: list[Any] = []
        self._fresh: list[Any] = []  # results of the current step, read when it has ended
        self._count = 0
        self._since = time.perf_counter()
        self._optimizers: list[Any] = []
        self._modules: list[Any] = []
        self._loaders: list[Any] = []
        self._calls_with_gradients = 0
        self._depth = 0
        self._pending = b""
        self.survey: Any = None
        random.seed(0)
        sys.addaudithook(self._audit)
        atexit.register(self._end)
        sys.meta_path.insert(0, _Finder(self))
        if plan["mode"] == SURVEY:
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "survey.py")
            self.survey = _load("stepscope.remedies.inside.survey", path).Survey(self)

    # ---- the line to the trial

    def tell(self, event: str, **facts: "Any") -> None:
        data = json.dumps({"event": event, **facts}).encode() + b"\n"
        while data:
            data = data[os.write(self._fd, data) :]

    def _next_command(self) -> "dict[str, Any]":
        while b"\n" not in self._pending:
            data = os.read(self._fd, 1 << 16)
            if not data:  # the trial is over
                os._exit(0)
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        command: dict[str, Any] = json.loads(line)
        return command

    def _audit(self, event: str, arguments: "tuple[Any, ...]") -> None:
        if event == "builtins.input" and os.getpid() == self._pid:
            self.tell("refused", reason="it asks its user (input)")
        elif event == "open" and os.getpid() == self._pid:
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
                self._check_place(path)
                if self.survey is not None:
                    self.survey.note_write()
        elif event == "socket.connect" and not self.plan["network"] and os.getpid() == self._pid:
            address = arguments[1]
            host = address[0] if isinstance(address, tuple) else ""
            if isinstance(host, str) and host not in _LOCAL and not host.startswith("127."):
                self.tell("refused", reason=f"it connects to {host}; --allow-network permits it")
                raise PermissionError(f"stepscope try keeps the network out: {host}")

    def _check_place(self, path: object) -> None:
        if not isinstance(path, str | bytes):
            return
        place = os.path.realpath(os.fsdecode(path))
        if not any(
            place == folder or place.startswith(f"{folder}/") for folder in self.plan["apart"]
        ):
            self.tell("refused", reason=f"it writes {place}, which cannot be kept apart")
            raise PermissionError(f"stepscope try keeps no copy of {place}")

    # ---- steps

    def end_step(self, kind: str) -> None:
        """A step of this kind has ended; wait here if the grant is used up."""
        now = time.perf_counter()
        if os.getpid() != self._pid:
            return
        if self.survey is not None:
            self.survey.end_step(kind, now)
            return
        if kind != self.unit:
            return
        if self._granted:
            self._times.append(now - self._since)
        self._count += 1
        self._results.append([_number(value) for value in self._fresh])
        self._fresh.clear()
        self._granted -= 1
        if self._granted <= 0:
            self._wait()
        self._since = time.perf_counter()

    def _wait(self) -> None:
        self._report("at")
        command = self._next_command()
        self._granted = command["steps"]
        self._is_digest_due = command["digest"]

    _is_digest_due = True

    def _report(self, event: str) -> None:
        digest = self._digest() if self._is_digest_due else None
        remember: Any = sys.modules.get("stepscope.remember")
        self.tell(
            event,
            count=self._count,
            times=self._times,
            results=self._results,
            digest=digest,
            remembered=remember.totals() if remember else None,
            state=self._state(),
        )
        self._times, self._results = [], []

    def _state(self) -> "dict[str, Any]":
        """Return what remedies change: where a remedy took effect, one of these is another."""
        torch: Any = sys.modules.get("torch")
        remember: Any = sys.modules.get("stepscope.remember")
        dynamo: Any = sys.modules.get("torch._dynamo.utils")
        groups = [group for item in self._optimizers for group in item.param_groups]
        return {
            "threads": torch.get_num_threads() if torch is not None else 0,
            "frozen": gc.get_freeze_count() > 0,
            "collections": gc.get_stats()[2]["collections"],
            "optimizers": [[group.get("fused"), group.get("foreach")] for group in groups],
            "loaders": [
                [loader.num_workers, loader.persistent_workers, loader.prefetch_factor]
                for loader in self._loaders
            ],
            "dtypes": sorted({str(item.dtype) for group in groups for item in group["params"]}),
            "compiled": bool(dynamo and dynamo.counters["stats"]["unique_graphs"]),
            "remembered": bool(remember and remember.totals()["hits"]),
            "calls_with_gradients": self._calls_with_gradients > 0,
        }

    def _digest(self) -> "list[list[Any]]":
        """Return a checksum of the parameters, for equal bits, and two sums, for close values."""
        torch: Any = sys.modules.get("torch")
        digest: list[list[Any]] = []
        size = 0
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for tensor in group["params"]:
                    size += tensor.numel() * tensor.element_size()
                    if size > _MOST_DIGESTED_BYTES:
                        return digest
                    digest.append(_summary(torch, tensor))
        return digest

    def note_result(self, value: "Any") -> None:
        """Keep a loss or an output until the step has ended."""
        if os.getpid() == self._pid and len(self._fresh) < 8:
            self._fresh.append(value)

    def _end(self) -> None:
        if os.getpid() != self._pid:
            return
        if self.survey is not None:
            self.survey.finish()
            return
        self._report("end")

    # ---- torch

    def watch_optimizers(self, module: "ModuleType") -> None:
        """Steps of the first optimizer are steps of the program."""
        register: Any = module.register_optimizer_step_post_hook

        def stepped(optimizer: "Any", *_: object) -> None:
            self.end_step(f"optimizer:{_number_in(self._optimizers, optimizer)}")

        register(stepped)
        torch: Any = sys.modules["torch"]
        backward, note = torch.Tensor.backward, self.note_result

        def noted_backward(tensor: "Any", *arguments: "Any", **options: "Any") -> "Any":
            note(tensor.detach())
            return backward(tensor, *arguments, **options)

        torch.Tensor.backward = noted_backward

    def watch_loaders(self, module: "ModuleType") -> None:
        loader_class: Any = module.DataLoader
        original, loaders = loader_class.__init__, self._loaders

        def made(loader: "Any", *arguments: "Any", **options: "Any") -> None:
            original(loader, *arguments, **options)
            loaders.append(loader)

        loader_class.__init__ = made

    def watch_modules(self, module: "ModuleType") -> None:
        """Outermost calls of modules are steps of a program that has no optimizer."""
        if self.unit and not self.unit.startswith("module"):
            return
        nn: Any = module
        original = nn.Module.__call__

        def called(this: "Any", *arguments: "Any", **options: "Any") -> "Any":
            if self._depth:
                return original(this, *arguments, **options)
            self._depth += 1
            began = time.perf_counter()
            try:
                output = original(this, *arguments, **options)
            finally:
                self._depth -= 1
            self._module_called(this, output, arguments, time.perf_counter() - began)
            return output

        nn.Module.__call__ = called

    def _module_called(
        self, module: "Any", output: "Any", inputs: "tuple[Any, ...]", seconds: float
    ) -> None:
        number = _number_in(self._modules, module)
        if self.survey is not None:
            self.survey.module_called(number, module, inputs, seconds)
        elif f"module:{number}" == self.unit:
            self.note_result(output)
            self._calls_with_gradients += sys.modules["torch"].is_grad_enabled()
        self.end_step(f"module:{number}")


_LOCAL = {"", "localhost", "::1", "0.0.0.0"}


def _number_in(objects: "list[Any]", wanted: "Any") -> int:
    """Return the place of an object in a list, to which a new one is added."""
    for number, one in enumerate(objects):
        if one is wanted:
            return number
    objects.append(wanted)
    return len(objects) - 1


def _summary(torch: "Any", tensor: "Any") -> "list[Any]":
    with torch.no_grad():
        plain = tensor.detach().cpu().contiguous()
        wide = plain.double()
        checksum = hash(bytes(plain.flatten().view(torch.uint8).numpy().data))
        return [checksum, float(wide.sum()), float(wide.abs().sum())]


def _number(value: "Any") -> "list[Any]":
    """Return a checksum and two sums of a result; a result that is no tensor is left out."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and not value.is_sparse:
        return _summary(torch, value)
    return [0, 0.0, 0.0]


class _Finder:
    """Calls the agent when the program has imported what makes its steps."""

    def __init__(self, agent: Agent) -> None:
        self._watched: dict[str, Callable[[ModuleType], None]] = {
            "torch.optim.optimizer": agent.watch_optimizers,
            "torch.nn.modules.module": agent.watch_modules,
            "torch.utils.data.dataloader": agent.watch_loaders,
            "numpy": _seed_numpy,
            "torch": _seed_torch,
        }
        self._agent = agent
        self._is_asking = False

    def find_spec(self, name: str, path: "Any", target: "Any" = None) -> "Any":
        is_unprofiled = self._agent.survey is not None and sys.getprofile() is not None
        if self._is_asking or not (is_unprofiled or name in self._watched):
            return None
        self._is_asking = True
        try:
            spec: Any = None
            for finder in sys.meta_path:
                if finder is not self:
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        break
        finally:
            self._is_asking = False
        loader: Any = getattr(spec, "loader", None)
        if loader is not None and hasattr(loader, "exec_module"):
            execute, watch = loader.exec_module, self._watched.pop(name, None)
            survey = self._agent.survey
            is_library = survey is not None and survey.is_library(spec.origin)

            def execute_and_watch(module: "ModuleType") -> None:
                if is_library:
                    with survey.unprofiled():
                        execute(module)
                else:
                    execute(module)
                if watch is not None:
                    watch(module)

            loader.exec_module = execute_and_watch
        return spec


def _seed_numpy(module: "Any") -> None:
    module.random.seed(0)


def _seed_torch(module: "Any") -> None:
    module.manual_seed(0)  # it would draw one of its own, another in each arm


def _load(name: str, path: str) -> "Any":
    module: Any = type(sys)(name)
    module.__file__ = path
    sys.modules[name] = module
    external: Any = sys.modules["_frozen_importlib_external"]
    external.SourceFileLoader(name, path).exec_module(module)
    return module


def begin() -> None:
    """Take part in a trial, if this process was started for one."""
    text = os.environ.pop(VARIABLE, None)  # the processes that the program starts take no part
    if text:
        plan = json.loads(text)
        if plan["path"] is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = plan["path"]
        Agent(plan)
