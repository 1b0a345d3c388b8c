"""What each module costs: whose every slice is, in both passes, and how it adds up."""

from __future__ import annotations

import csv
import gzip
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from made_trace import Call, trace_of_calls
from module_recording import module_rows, modules_recorded, recorded
from recording import trace_of
from sample_traces import json_events, sample_path
from stepscope.analysis.base.tree import call_tree
from stepscope.analysis.flops.count import flops_of
from stepscope.analysis.host.modules import module_of_slices, module_table
from stepscope.analysis.memory.usage import memory_of_slices
from stepscope.formats import export_trace, read_trace
from stepscope.formats.base.files import ExportError
from stepscope.record.options import RecordOptions
from stepscope.record.session import Session
from stepscope.record.source import make_sources
from stepscope.text.modules import export_module_table, module_table_text
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import Trace


class Apply(nn.Module):
    """One differentiable function, so that its backward can be told from all others."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def waves() -> nn.Sequential:
    return nn.Sequential(Apply(torch.sin), nn.Sequential(Apply(torch.cos), Apply(torch.exp)))


def step(model: nn.Module, shape: tuple[int, ...]) -> None:
    model(torch.ones(shape, requires_grad=True)).sum().backward()


def modules_of(trace: Trace, name: str) -> set[str]:
    """Return the modules that slices of that name belong to."""
    owner = module_of_slices(trace)
    return {
        trace.name_of(owner[row]) if owner[row] >= 0 else ""
        for row, other in enumerate(trace.names())
        if other == name
    }


def module(name: str, start: int, end: int, kind: str = "Linear", **options: int) -> Call:
    return Call(name, start, end, category="module", rest=f'"Class": "{kind}"', **options)


# ---- whose a slice is


def test_a_backward_function_belongs_to_the_module_of_its_forward_operator() -> None:
    trace = recorded(lambda: step(waves(), (3,)))
    for function, name in (("Sin", "0"), ("Cos", "1.0"), ("Exp", "1.1")):
        assert modules_of(trace, f"{function}Backward0") == {name}
        engine = f"autograd::engine::evaluate_function: {function}Backward0"
        assert modules_of(trace, engine) == {name}
    assert modules_of(trace, "SumBackward0") == {""}  # of the loss, outside of the model


def test_threads_that_train_at_once_keep_their_own() -> None:
    names = ["SinBackward0", "CosBackward0"]
    models = [nn.Sequential(Apply(torch.sin)), nn.Sequential(nn.Identity(), Apply(torch.cos))]
    together = threading.Barrier(2)

    def train(model: nn.Module) -> None:
        together.wait()
        for _ in range(30):
            step(model, (3,))

    with modules_recorded() as session, ThreadPoolExecutor(2) as pool:
        list(pool.map(train, models))
    trace = trace_of(session)
    assert [modules_of(trace, name) for name in names] == [{"0"}, {"1"}]


def test_a_module_call_belongs_to_itself_and_everything_else_to_the_nearest() -> None:
    calls = [module("Net", 0, 90), module("a", 10, 50), Call("aten::mm", 20, 30), Call("x", 95, 99)]
    assert module_of_slices(trace_of_calls(calls)).tolist() == [0, 1, 1, -1]


# ---- sums


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("depth", [None, 0, 1, 2])
def test_operators_and_self_times_add_up_to_the_whole_trace(depth: int | None) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32)
    trace = recorded(lambda: step(nn.TransformerEncoder(layer, 2), (5, 2, 16)))
    rows = module_table(trace, depth)
    assert rows.operators.sum() == (trace.slices.kind == SliceKind.OPERATOR).sum()
    assert rows.self_ns.sum() == trace.slices.self_ns.sum()
    assert rows.model[-1] == ""
    assert rows.total_ns[0] + rows.total_ns[-1] == rows.self_ns.sum()


def test_a_convolutional_network_is_summed_by_stage() -> None:
    def stage(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(width, 2 * width, 3), nn.BatchNorm2d(2 * width), nn.ReLU())

    model = nn.Sequential(stage(2), stage(4), nn.Flatten(), nn.Linear(8 * 16, 3))
    trace = recorded(lambda: step(model, (2, 2, 8, 8)))
    rows = module_table(trace, depth=1)
    assert rows.name == ("Sequential", "0", "1", "2", "3", "")
    assert rows.class_name[1:5] == ("Sequential", "Sequential", "Flatten", "Linear")
    assert rows.parameters.tolist() == [
        sum(p.numel() for p in m.parameters()) for m in (model, *model)
    ] + [0]
    assert rows.own_parameters.tolist() == [0, 0, 0, 0, 8 * 16 * 3 + 3, 0]
    assert (rows.backward_ns[[1, 2, 4]] > 0).all()


def test_times_of_both_levels_are_exact() -> None:
    calls = [
        module("Net", 0, 100, "Net"),
        module("a", 10, 60),
        Call("aten::mm", 20, 50),
        module("b", 60, 70),
        Call("aten::add", 80, 90),
        Call("aten::sum", 110, 130),
    ]
    rows = module_table(trace_of_calls(calls))
    assert rows.name == ("Net", "a", "b", "")
    assert (rows.forward_ns // 1000).tolist() == [100, 50, 10, 20]
    assert (rows.self_forward_ns // 1000).tolist() == [40, 50, 10, 20]
    assert rows.operators.tolist() == [1, 1, 0, 1]
    assert not rows.backward_ns.any()


def test_a_module_that_calls_itself_counts_no_moment_twice() -> None:
    calls = [module("Net", 0, 100, "Net"), module("a", 10, 90), module("a", 20, 80)]
    rows = module_table(trace_of_calls(calls))
    assert rows.calls.tolist() == [1, 2]
    assert (rows.forward_ns // 1000).tolist() == [100, 80]


def test_depth_folds_into_ancestors_also_into_those_that_nobody_called() -> None:
    calls = [
        module("Net", 0, 100, "Net"),
        module("layers.0", 0, 40),
        module("layers.0.norm", 10, 20),
        module("layers.1", 50, 90),
    ]
    rows = module_table(trace_of_calls(calls), depth=1)
    assert rows.name == ("Net", "layers")
    assert rows.class_name == ("Net", "")
    assert rows.calls.tolist() == [1, 2]
    assert (rows.self_forward_ns // 1000).tolist() == [20, 80]
    assert module_table(trace_of_calls(calls), depth=0).name == ("Net",)
    with pytest.raises(ValueError, match="depth -1 is negative"):
        module_table(trace_of_calls(calls), depth=-1)


def test_models_with_the_same_inner_names_are_kept_apart() -> None:
    calls = [module("A", 0, 10), module("x", 1, 9), module("B", 20, 30), module("x", 22, 25)]
    rows = module_table(trace_of_calls(calls))
    assert list(zip(rows.model, rows.name, strict=True)) == [
        ("A", "A"),
        ("A", "x"),
        ("B", "B"),
        ("B", "x"),
    ]


def test_a_trace_without_modules_has_one_row_and_an_empty_one_none() -> None:
    assert module_table(trace_of_calls([Call("aten::mm", 0, 5)])).name == ("",)
    rows = module_table(trace_of_calls([]))
    assert len(rows) == 0
    assert module_table_text(rows) == ""
    assert rows.to_polars().is_empty()


def test_flops_and_device_time_go_to_the_module_that_asked() -> None:
    dims = '"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]'
    launch = {"category": "cuda_runtime", "correlation": 7}
    calls = [
        module("Net", 0, 100, "Net"),
        module("a", 10, 60),
        Call("aten::mm", 20, 50, rest=dims),
        Call("cudaLaunchKernel", 25, 30, **launch),
        Call("gemm", 200, 240, category="kernel", correlation=7, track=1),
    ]
    rows = module_table(trace_of_calls(calls))
    assert rows.name == ("Net", "a")
    assert (rows.device_ns // 1000).tolist() == [40, 40]
    assert (rows.self_device_ns // 1000).tolist() == [0, 40]
    assert rows.flops.tolist() == [48, 48]
    assert rows.self_flops.tolist() == [0, 48]


def test_recorded_flops_and_memory_add_up_over_modules() -> None:
    options = RecordOptions(shapes=True, memory=True, modules=True)
    session = Session(make_sources(options))
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Sequential(nn.Linear(16, 4)))
    session.start()
    remaining = model(torch.ones(2, 8))
    remaining.sum().backward()
    session.stop()
    trace = trace_of(session)
    rows = module_table(trace)
    assert rows.name == ("Sequential", "0", "1", "1.0", "")
    assert rows.flops[1] == 2 * (2 * 8 * 16) * 2  # forward, and the weight's gradient
    assert rows.self_flops.sum() == flops_of(trace).sum()
    memory = memory_of_slices(trace)
    assert rows.self_memory_bytes.sum() == memory.cpu_self.sum()
    assert rows.memory_bytes[1] >= 2 * 16 * 4  # its output lives on


# ---- foreign traces


def test_torchs_own_frames_of_modules_serve_as_far_as_they_go(tmp_path: Path) -> None:
    path = tmp_path / "torch.json"
    with torch.profiler.profile(with_stack=True) as profiler:
        step(waves(), (3,))
    profiler.export_chrome_trace(str(path))
    trace = read_trace(path)
    rows = module_table(trace)
    assert rows.class_name == ("Sequential", "Apply", "Sequential", "Apply", "Apply", "")
    assert rows.depth.tolist() == [0, 1, 1, 2, 2, 0]
    assert rows.name[3].startswith(f"{rows.name[2]}.")
    assert modules_of(trace, "ExpBackward0") == modules_of(trace, "aten::exp") != {""}
    assert rows.operators.sum() == (trace.slices.kind == SliceKind.OPERATOR).sum()


# ---- as text and files


def shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def hostile_model(name: str) -> nn.Module:
    model = type(shown(name), (nn.Sequential,), {})()
    model.add_module(name, Apply(torch.sin))
    return model


HOSTILE = ['"quoted"', "back\\slash", "</script>", "new\nline", "emoji 🚀", "x" * 10_000, "\ud800"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_survive_every_format(name: str, tmp_path: Path) -> None:
    trace = recorded(lambda: step(hostile_model(name), (3,)))
    rows = module_table(trace)
    assert rows.name[:2] == (shown(name),) * 2
    assert rows.class_name[:2] == (shown(name), "Apply")
    chrome = tmp_path / "trace.json"
    export_trace(trace, chrome)
    again = read_trace(chrome)
    assert [again.name_of(row) for row in module_rows(again)] == [shown(name)] * 2
    for path in (tmp_path / "t.csv", tmp_path / "t.json", tmp_path / "t.txt"):
        export_module_table(rows, path)
    (_, row, *_) = csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text("utf-8"), newline=""))
    assert row["name"] == shown(name)
    assert json.loads((tmp_path / "t.json").read_text("utf-8"))[1]["name"] == shown(name)
    assert len((tmp_path / "t.txt").read_text("utf-8").splitlines()) == 2 + len(rows)


def test_the_text_is_a_tree_or_sorted() -> None:
    calls = [
        module("Net", 0, 100, "Net"),
        module("l.0", 0, 10),
        module("l.0.x", 2, 9),
        module("l.1", 20, 90),
    ]
    rows = module_table(trace_of_calls(calls))
    lines = module_table_text(rows).splitlines()
    assert [line.split("  ")[0] for line in lines[2:4]] == ["Net", ""]
    assert [len(line) - len(line.lstrip()) for line in lines[2:]] == [0, 2, 4, 2]
    by_self = module_table_text(rows, sort_by="self_ns", row_limit=2).splitlines()
    assert by_self[2].split()[:2] == ["Net:", "l.1"]
    assert by_self[-1] == "(2 more rows)"
    with pytest.raises(AttributeError, match="'speed' is not a numeric column"):
        module_table_text(rows, sort_by="speed")


def test_frames_and_files_hold_the_same_numbers(tmp_path: Path) -> None:
    rows = module_table(recorded(lambda: step(waves(), (3,))))
    frame = rows.to_polars()
    assert frame.height == len(rows)
    assert frame["total_ns"].to_list() == (rows.forward_ns + rows.backward_ns).tolist()
    assert rows.to_pandas().shape == frame.shape
    assert rows.to_dicts() == frame.to_dicts()
    export_module_table(rows, tmp_path / "table.json.gz")
    with gzip.open(tmp_path / "table.json.gz") as file:
        assert json.load(file) == rows.to_dicts()
    with pytest.raises(ExportError, match=r"table\.xls.*use one of \.csv"):
        export_module_table(rows, tmp_path / "table.xls")


@pytest.mark.parametrize("name", ["cpu_training", "h200_language_model"])
def test_the_slice_of_a_whole_recording_is_no_time_of_anybodys(name: str) -> None:
    path = sample_path(name)
    (whole,) = [event for event in json_events(path) if event.get("cat") == "Trace"]
    trace = read_trace(path)
    assert whole["name"] in trace.names()
    table, tree = module_table(trace), call_tree(trace)
    is_host = np.ones(len(tree), bool) if tree.is_device is None else ~tree.is_device
    on_host_ns = tree.self_ns[is_host].sum()
    assert (table.self_forward_ns + table.self_backward_ns).sum() == on_host_ns
