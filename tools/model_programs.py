"""Programs whose behaviour a profiler must not change: ``model_programs.py NAME``.

Each prints what it computes. What was compiled, and what became of the framework's classes, is
printed behind it. ``compare_programs.py`` runs all of them bare and recorded.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
import sys
import tempfile
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS: dict[str, tuple[str, Callable[[], object]]] = {}
"""By name: the package that a program needs, and the program."""


def program(needs: str = "torch") -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Add a program that needs a package."""

    def add(function: Callable[[], object]) -> Callable[[], object]:
        PROGRAMS[function.__name__.lstrip("_")] = needs, function
        return function

    return add


def available() -> list[str]:
    """Return the programs whose packages are there."""
    return [name for name, (needs, _) in PROGRAMS.items() if find_spec(needs) is not None]


def _model() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))


def _trained(model: Any, steps: int = 3) -> list[float]:
    import torch

    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@program()
def _train_eagerly() -> object:
    return _trained(_model())


@program()
def _train_with_hooks() -> object:
    model, seen = _model(), []
    model[0].register_forward_hook(lambda module, _, out: seen.append((type(module), out.shape)))
    model[2].register_full_backward_hook(lambda module, *_: seen.append(type(module)))
    return _trained(model), seen, [len(module._forward_hooks) for module in model.modules()]


@program()
def _compile_whole_graph() -> object:
    import torch

    return _trained(torch.compile(_model(), fullgraph=True, backend="aot_eager"))


@program()
def _compile_with_a_range() -> object:
    import torch

    @torch.compile(fullgraph=True, backend="eager")
    def stepped(x: Any) -> Any:
        with torch.profiler.record_function("part"):
            return x.sin() + 1

    return stepped(torch.ones(3)).tolist()


@program()
def _compile_with_graph_breaks() -> object:
    import torch

    @torch.compile(backend="eager")
    def stepped(x: Any) -> Any:
        y = x.sin()
        print("a break")
        return y.cos() if y.sum() > 0 else y.exp()

    return [stepped(torch.full((3,), float(i))).tolist() for i in range(-2, 3)]


@program()
def _compile_again_for_shapes() -> object:
    import torch

    compiled = torch.compile(_model(), backend="eager", dynamic=False)
    return [compiled(torch.ones(batch, 8)).shape for batch in (1, 2, 3, 2, 1)]


@program()
def _compile_with_inductor() -> object:
    import torch

    return torch.compile(_model())(torch.ones(2, 8)).tolist()


@program()
def _compile_a_subclass_that_calls_super() -> object:
    import torch

    class Calling(torch.nn.Linear):
        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args) + 1

    torch.manual_seed(0)
    return torch.compile(Calling(8, 8), backend="eager")(torch.ones(2, 8)).tolist()


@program()
def _export_a_program() -> object:
    import torch

    exported = torch.export.export(_model(), (torch.ones(2, 8),))
    return str(exported.graph), exported.module()(torch.ones(2, 8)).tolist()


@program()
def _script_and_trace() -> object:
    import torch

    scripted = torch.jit.script(_model())
    traced = torch.jit.trace(_model(), torch.ones(2, 8))
    outputs = [scripted(torch.ones(2, 8)).tolist() for _ in range(3)]
    return str(scripted.graph), str(traced.graph), outputs


@program()
def _make_fx_and_trace_symbolically() -> object:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    model = _model()
    made = make_fx(lambda x: model(x).sum())(torch.ones(2, 8))
    return made.code, torch.fx.symbolic_trace(model).code


@program()
def _train_under_a_function_mode() -> object:
    from torch.overrides import TorchFunctionMode

    class Log(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Log() as log:
        losses = _trained(_model())
    return losses, log.names


@program()
def _transform_functions() -> object:
    import torch

    model = _model()
    parameters = dict(model.named_parameters())

    def loss(weights: Any, x: Any) -> Any:
        return torch.func.functional_call(model, weights, (x,)).sum()

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.ones(3, 8))
    return {name: item.shape for name, item in gradients.items()}


@program()
def _checkpoint_activations() -> object:
    from torch.utils.checkpoint import checkpoint

    model = _model()
    return _trained(_Checkpointed(model, checkpoint))


class _Checkpointed:
    def __init__(self, model: Any, checkpoint: Any) -> None:
        self._model, self._checkpoint = model, checkpoint
        self.parameters = model.parameters

    def __call__(self, x: Any) -> Any:
        return self._checkpoint(self._model, x, use_reentrant=False)


@program()
def _copy_and_pickle() -> object:
    model = _model()
    _trained(model)
    copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    return [sorted(vars(item)) for item in (model, copied, pickled)], _trained(copied)


@program()
def _load_with_workers() -> object:
    import torch

    class Squares(torch.utils.data.Dataset[Any]):
        def __getitem__(self, index: int) -> Any:
            return torch.tensor(index * index)

        def __len__(self) -> int:
            return 12

    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2)
    return [batch.tolist() for batch in loader]


@program()
def _pass_data_pipes() -> object:
    from torch.utils.data.datapipes.iter import IterableWrapper

    pipe = IterableWrapper(range(10)).map(lambda x: x * 2).filter(lambda x: x % 3).batch(2)
    return [list(batch) for batch in pipe]


@program()
def _profile_by_itself() -> object:
    from torch.profiler import profile, record_function

    model = _model()
    with profile(record_shapes=True) as prof, record_function("training"):
        _trained(model)
    return sorted((key_average.key, key_average.count) for key_average in prof.key_averages())


@program()
def _train_in_parallel() -> object:
    import torch
    import torch.distributed as dist

    with tempfile.NamedTemporaryFile() as store:
        dist.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)
        losses = _trained(torch.nn.parallel.DistributedDataParallel(_model()))
        dist.destroy_process_group()
    return losses


@program("lightning")
def _train_with_lightning() -> object:
    import lightning
    import torch

    class Module(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.model = _model()
            self.losses: list[float] = []

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.model(batch).pow(2).mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(2)
    data = torch.utils.data.DataLoader(torch.randn(12, 8), batch_size=4)  # type: ignore[arg-type]
    module = Module()
    quiet: dict[str, Any] = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
    }
    lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet).fit(
        module, data
    )
    return module.losses


@program("transformers")
def _run_a_transformer() -> object:
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    small = BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        vocab_size=50,
    )  # fmt: skip
    model = torch.compile(BertModel(small).eval(), backend="eager")
    with torch.no_grad():
        return model(torch.arange(8)[None]).last_hidden_state.sum().item()


@program()
def _fail() -> object:
    import torch

    return torch.ones(2) @ torch.ones(3)


@program()
def _exit_with_a_code() -> object:
    _trained(_model())
    sys.exit(7)


@program("paddle")
def _paddle_to_static() -> object:
    import paddle

    paddle.seed(0)
    model = paddle.jit.to_static(
        paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
    )
    optimizer = paddle.optimizer.Adam(parameters=model.parameters())
    losses = []
    for _ in range(4):
        loss = model(paddle.ones([2, 8])).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


@program("paddle")
def _paddle_train_eagerly() -> object:
    import paddle

    paddle.seed(0)
    model = paddle.nn.Linear(8, 4)
    calls: list[str] = []
    model.register_forward_post_hook(lambda layer, *_: calls.append(type(layer).__name__))
    return [float(model(paddle.ones([2, 8])).mean()) for _ in range(3)], calls


@program("paddle")
def _paddle_profile_by_itself() -> object:
    import paddle
    from paddle import profiler

    with profiler.Profiler(targets=[profiler.ProfilerTarget.CPU], on_trace_ready=lambda _: None):
        return float(paddle.nn.Linear(8, 4)(paddle.zeros([2, 8])).sum())


def facts() -> list[str]:
    """Return what was compiled, and what the frameworks' classes look like now."""
    collected = []
    if "torch" in sys.modules:
        import torch

        collected.append(f"attributes of Module: {_digest(torch.nn.Module)}")
        call: Any = torch.nn.Module.__call__
        collected.append(f"its call: {call.__module__}.{call.__qualname__}")
        collected.append(f"profiler enabled: {torch.autograd._profiler_enabled()}")
    if "torch._dynamo" in sys.modules:
        from torch._dynamo.utils import counters

        for group in ("stats", "graph_break", "recompiles", "unimplemented"):
            collected.append(f"{group}: {sorted(counters[group].items())}")
    if "paddle" in sys.modules:
        import paddle

        collected.append(f"attributes of Layer: {_digest(paddle.nn.Layer)}")
        collected.append(f"its call: {paddle.nn.Layer.__call__.__qualname__}")
        with_sot = sys.modules.get("paddle.jit.sot.utils.info_collector")
        collected.append(f"SOT: {_sot_facts(with_sot)}")
    return collected


def _sot_facts(module: Any) -> object:
    collector = getattr(module, "InfoCollector", None)
    return sorted(map(str, getattr(collector, "_info", {}))) if collector else None


def _digest(cls: type) -> str:
    """Return the names of a class in short, without the one hook that lasts as long as a recording.

    By that a recording sees the classes that are derived meanwhile: this runs before its end.
    """
    names = sorted(set(vars(cls)) - {"__init_subclass__"})
    return f"{len(names)}, {hashlib.sha256(' '.join(names).encode()).hexdigest()[:12]}"


def main() -> None:
    """Run the program that is named; without a name, list all that can run here."""
    if len(sys.argv) == 1:
        print("\n".join(available()))
        return
    try:
        print(PROGRAMS[sys.argv[1]][1]())
    finally:
        print("\n".join(facts()))


if __name__ == "__main__":
    main()
