"""What the program says of torch's memory: parameters, gradients, optimizer state, inputs."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.analysis.memory.timeline import memory_timeline
from stepscope.frameworks.torch.owners import TorchOwners
from stepscope.trace.model import MemoryOwner

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Iterator

    Statements = dict[MemoryOwner, set[tuple[int, int]]]  # address and size


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """Forget what other tests compiled: then modules are watched, too."""
    torch._dynamo.reset()


@contextmanager
def statements() -> Iterator[Statements]:
    statements_made: Statements = defaultdict(set)

    def note(address: int, size: int, device_type: int, device_index: int, owner: int) -> None:
        assert (device_type, device_index) == (0, -1)
        statements_made[MemoryOwner(owner)].add((address, size))

    owners = TorchOwners(note)
    owners.start()
    try:
        yield statements_made
    finally:
        owners.stop()


def where(tensors: Any) -> set[tuple[int, int]]:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {(storage.data_ptr(), storage.nbytes()) for storage in storages}


def model_and_optimizer() -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    return model, torch.optim.Adam(model.parameters())


def test_a_training_step_tells_of_everything() -> None:
    model, optimizer = model_and_optimizer()
    data = torch.randn(3, 4)
    with statements() as stated:
        model(data).sum().backward()
        gradients = where(p.grad for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()  # the gradients are gone before the end
    assert stated[MemoryOwner.PARAMETER] == where(model.parameters())
    assert stated[MemoryOwner.GRADIENT] == gradients
    state = [v for values in optimizer.state.values() for v in values.values()]
    assert stated[MemoryOwner.OPTIMIZER_STATE] == where(state)
    assert stated[MemoryOwner.INPUT] == where([data])


def test_gradients_without_an_optimizer_are_told_at_the_end() -> None:
    model, _ = model_and_optimizer()
    with statements() as stated:
        model(torch.randn(3, 4)).sum().backward()
    assert stated[MemoryOwner.GRADIENT] == where(p.grad for p in model.parameters())


@pytest.mark.usefixtures("way_to_the_frames")
def test_inputs_are_found_by_position_by_name_and_in_lists() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()

        def forward(self, ids: Any, *, masks: Any, extra: Any) -> Any:
            return self.inner(ids * masks[0] + extra["bias"][0])

    ids, mask, bias = torch.ones(5), torch.ones(5), torch.ones(5)
    with statements() as stated:
        Model()(ids, masks=[mask], extra={"bias": (bias,)})
    # What the inner module is called with is not the program's input.
    assert stated[MemoryOwner.INPUT] == where([ids, mask, bias])


def test_parameters_that_an_optimizer_gets_later_have_gradients() -> None:
    model, optimizer = model_and_optimizer()
    later = torch.nn.Parameter(torch.ones(7))
    with statements() as stated:
        for _ in range(2):
            (model(torch.randn(3, 4)).sum() + later.sum()).backward()
            optimizer.step()
            if len(optimizer.param_groups) == 1:
                optimizer.add_param_group({"params": [later]})
        gradients = where(p.grad for p in [*model.parameters(), later])
        assert stated[MemoryOwner.GRADIENT] == gradients


def test_the_gradients_of_every_step_are_told() -> None:
    model, optimizer = model_and_optimizer()
    alive = []
    with statements() as stated:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            alive += [p.grad for p in model.parameters()]
    assert stated[MemoryOwner.GRADIENT] == where(alive)


def test_every_thread_is_heard() -> None:
    trainings = [model_and_optimizer() for _ in range(4)]
    alive: list[Any] = []

    def train(model: Any, optimizer: Any) -> None:
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            alive.extend(p.grad for p in model.parameters())

    with statements() as stated:
        threads = [threading.Thread(target=train, args=arguments) for arguments in trainings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    state = [v for _, o in trainings for values in o.state.values() for v in values.values()]
    assert stated[MemoryOwner.GRADIENT] == where(alive)
    assert stated[MemoryOwner.OPTIMIZER_STATE] == where(state)


def test_what_a_graph_made_is_no_input() -> None:
    hidden = torch.nn.Linear(4, 4)(torch.randn(3, 4))
    with statements() as stated:
        torch.nn.Linear(4, 4)(hidden)
    assert not stated[MemoryOwner.INPUT]


def test_the_first_model_of_every_iteration_is_seen() -> None:
    model, optimizer = model_and_optimizer()
    batches = [torch.randn(3, 4) for _ in range(3)]
    with statements() as stated:
        for batch in batches:
            model(batch).sum().backward()
            torch.nn.Linear(4, 4)(torch.randn(3, 4))
            optimizer.step()
    assert stated[MemoryOwner.INPUT] == where(batches)


def test_the_parts_of_a_model_are_called_without_a_hook() -> None:
    from torch.nn.modules.module import _has_any_global_hook

    class Part(torch.nn.Module):
        def forward(self, data: Any) -> Any:
            assert not _has_any_global_hook()
            return data

    with statements():
        torch.nn.Sequential(Part(), Part())(torch.randn(3, 4))


def test_a_view_tells_of_its_whole_storage() -> None:
    whole = torch.randn(100, 4)
    with statements() as stated:
        torch.nn.Linear(4, 4)(whole[10:12])
    assert stated[MemoryOwner.INPUT] == where([whole])
    assert {size for _, size in stated[MemoryOwner.INPUT]} == {1600}


def test_nothing_is_told_and_no_hook_is_left_after_the_end() -> None:
    from torch.nn.modules.module import _has_any_global_hook
    from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

    model, optimizer = model_and_optimizer()
    with statements() as stated:
        pass
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    assert not stated
    assert not _has_any_global_hook()
    assert not _global_optimizer_pre_hooks
    assert not _global_optimizer_post_hooks


def test_nothing_is_kept_alive() -> None:
    with statements():
        model, optimizer = model_and_optimizer()
        data = torch.randn(3, 4)
        model(data).sum().backward()
        optimizer.step()
        watched = [weakref.ref(thing) for thing in (model, optimizer, data, *model.parameters())]
        del model, optimizer, data
        gc.collect()
        assert [ref() for ref in watched] == [None] * len(watched)


def test_nothing_is_left_of_it_after_the_end() -> None:
    owners = TorchOwners(lambda *_: None)
    owners.start()
    model, optimizer = model_and_optimizer()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    owners.stop()
    reference = weakref.ref(owners)
    del owners
    gc.collect()
    assert reference() is None


def test_no_operator_runs_for_it() -> None:
    from torch.profiler import ProfilerActivity, profile

    def names(watched: bool) -> list[str]:
        model, optimizer = model_and_optimizer()
        data = torch.randn(3, 4)
        owners = TorchOwners(lambda *_: None)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            if watched:
                owners.start()
            model(data).sum().backward()
            optimizer.step()
            owners.stop()
        return [event.name for event in profiler.events()]

    assert names(True) == names(False)


def test_odd_tensors_and_a_failing_listener_break_nothing() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lazy = torch.nn.LazyLinear(2)
            self.elsewhere = torch.nn.Linear(2, 2, device="meta")

        def forward(self, *args: Any, **named: Any) -> Any:
            return args

    def refuse(*statement: int) -> None:
        raise RuntimeError(statement)

    sparse = torch.eye(3).to_sparse()
    for note in (lambda *_: None, refuse):
        owners = TorchOwners(note)
        owners.start()
        Model()(sparse, None, 3, torch.empty(0), kwargs=[[[[[[torch.ones(1)]]]]]])
        model, optimizer = model_and_optimizer()
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        owners.stop()
        owners.stop()


def test_a_tensor_that_refuses_every_function_is_asked_below_them() -> None:
    from torch.optim.optimizer import _global_optimizer_pre_hooks

    class Silent(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise RuntimeError(func)

    class Model(torch.nn.Module):
        def forward(self, data: Any, *, more: Any) -> None:
            pass

    plain, below = torch.ones(5), torch.ones(5)
    silent = below.as_subclass(Silent)  # of the same memory
    with statements() as stated:
        Model()(silent, more=[silent, plain])
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))])
        optimizer.param_groups[0]["params"] = [silent]
        for hook in _global_optimizer_pre_hooks.values():
            hook(optimizer, (), {})
    assert stated[MemoryOwner.INPUT] == where([plain, below])


def test_compiled_modules_neither_warn_nor_compile_again() -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    model, optimizer = model_and_optimizer()
    compiled = torch.compile(model, backend=counter)
    data = torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*global hooks.*")
        with statements() as stated:
            compiled(data).sum().backward()
            optimizer.step()
        compiled(data)
    assert counter.frame_count == 1
    assert stated[MemoryOwner.PARAMETER] == where(model.parameters())


def test_a_recording_knows_every_category() -> None:
    from stepscope.torch import profile

    model, optimizer = model_and_optimizer()
    with profile(profile_memory=True) as profiler:
        for _ in range(2):
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    blocks = memory_timeline(profiler.trace).blocks_to_polars()
    assert set(blocks["category"]) == {
        "parameter", "gradient", "optimizer_state", "activation", "input", "temporary",
        "autograd_detail",
    }  # fmt: skip

    def sizes(category: str) -> list[int]:
        of_it = blocks.filter(category=category)
        return sorted(of_it["bytes"].to_list())

    of_parameters = sorted(p.nbytes for p in model.parameters())
    assert sizes("parameter") == of_parameters
    assert sizes("gradient") == sorted(of_parameters * 2)
    state = [v.nbytes for values in optimizer.state.values() for v in values.values()]
    assert sizes("optimizer_state") == sorted(state)
    assert sizes("input") == [48, 48]
    there_before = blocks.filter(blocks["start_ns"].is_null())
    assert set(there_before["category"]) == {"parameter"}
