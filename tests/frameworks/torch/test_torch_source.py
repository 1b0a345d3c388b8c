"""What torch itself marks: ranges, sequence numbers, overloads."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("torch")

import torch

from recording import chain_of, parents, row_of, run_python
from stepscope import profile, record_function
from stepscope.trace.model import SliceFlags

one = torch.ones(1)


def names(profiler: profile) -> list[str]:
    return [event.name for event in profiler.events()]


def test_torchs_ranges_arrive_and_mix_with_ours() -> None:
    with profile() as profiler:
        with torch.profiler.record_function("torch's"), record_function("ours"):
            one.neg()
        with record_function("ours"), torch.profiler.record_function("torch's"):
            one.neg()
    assert parents(profiler.trace) == [
        ("torch's", None),
        ("ours", "torch's"),
        ("aten::neg", "ours"),
        ("ours", None),
        ("torch's", "ours"),
        ("aten::neg", "torch's"),
    ]
    assert {e.name for e in profiler.events() if e.is_user_annotation} == {"torch's", "ours"}


def test_a_torch_range_that_ends_on_another_thread() -> None:
    scope = torch.profiler.record_function("handed over")
    with profile() as profiler:
        scope.__enter__()
        thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        one.neg()
    row = row_of(profiler.trace, "handed over")
    assert profiler.trace.slices.flags[row] & SliceFlags.ASYNC
    assert chain_of(profiler.trace, row_of(profiler.trace, "aten::neg")) == ("aten::neg",)


def test_the_data_loader_and_the_optimizer_mark_their_steps() -> None:
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2)
    with profile() as profiler:
        for (batch,) in batches:
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    seen = names(profiler)
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert seen.count(loader) == 3  # the last finds the end
    assert seen.count("Optimizer.step#SGD.step") == 2
    assert seen.count("Optimizer.zero_grad#SGD.zero_grad") == 2
    inside = chain_of(profiler.trace, seen.index("aten::add_"))
    assert inside[-1] == "Optimizer.step#SGD.step" or "aten::add_" not in seen


def test_sequence_numbers_tie_backward_functions_to_their_operators() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    with profile() as profiler:
        loss = torch.mm(weight, weight).exp().sum()
        loss.backward()
    trace = profiler.trace
    rows = {name: row for row, name in reversed(list(enumerate(trace.names())))}
    slices = trace.slices
    forward_track = slices.track[rows["aten::mm"]]
    for operator, function in (
        ("aten::mm", "MmBackward0"),
        ("aten::exp", "ExpBackward0"),
        ("aten::sum", "SumBackward0"),
    ):
        backward = rows[function]
        assert slices.sequence[rows[operator]] == slices.sequence[backward] >= 0
        assert slices.forward_thread[backward] == trace.tracks[forward_track].logical_id
        assert slices.flags[backward] & SliceFlags.BACKWARD
        engine = f"autograd::engine::evaluate_function: {function}"
        assert chain_of(trace, backward) == (function, engine)
    assert not slices.flags[rows["aten::mm"]] & SliceFlags.BACKWARD


def test_overloads_are_told_apart() -> None:
    with profile() as profiler:
        one.add(one)
        one.add(1)
        torch.add(one, one, out=torch.empty(1))
    trace = profiler.trace
    overloads = [
        trace.strings[int(trace.slices.overload[row])]
        for row, name in enumerate(trace.names())
        if name == "aten::add"
    ]
    assert overloads[0] == "Tensor"
    assert overloads[-1] == "out"
    keys = [a.overload_name for a in profiler.key_averages(group_by_overload_name=True)]
    assert {"Tensor", "out"} <= set(keys)


@pytest.mark.slow
def test_torchs_profiler_sees_nothing_of_our_calibration() -> None:
    """It is measured once a process, when nobody would record it."""
    done = run_python(
        """
        import torch
        from stepscope import profile
        with torch.profiler.profile() as theirs:
            with profile():
                torch.ones(1)
        print({event.name for event in theirs.events() if "stepscope" in event.name})
        with profile() as ours:
            torch.ones(1)
        print(ours.trace.info.overhead_ns > 0)
        """
    )
    assert done.stdout == "set()\nTrue\n", done.stderr


def test_operators_that_come_and_go_keep_their_own_names() -> None:
    """Another operator's name may come to stand where that of a removed one stood."""
    with profile() as profiler:
        for i in range(100):
            library = torch.library.Library(f"passing{i}", "DEF")
            library.define("op(Tensor x) -> Tensor")
            library.impl("op", torch.neg, "CPU")
            getattr(torch.ops, f"passing{i}").op(one)
            library._destroy()
            delattr(torch.ops, f"passing{i}")
    passing = [name for name in names(profiler) if name.startswith("passing")]
    assert passing == [f"passing{i}::op" for i in range(100)]
