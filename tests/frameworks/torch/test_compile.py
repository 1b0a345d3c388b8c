"""torch.compile: what is compiled, why it breaks, and what then runs, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from recording import chain_of, nothing_left_on, run_python
from stepscope import profile, schedule
from stepscope.analysis.steps.phases import phase_table, without_compilation
from stepscope.analysis.steps.steps import step_table
from stepscope.trace.model import SliceKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepscope.trace.model import Trace

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

STALE = "torch._C._profiler.RecordFunctionFast"


class Twice(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A graph break in the middle: print() cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.linear(x)) + 1
        print(end="")
        return (y * 2).sum()


def state_of_torch() -> tuple[object, ...]:
    """Return all that a recording replaces in torch."""
    from torch._dynamo.callback import callback_handler
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase
    from torch._dynamo.utils import CompileEventLogger
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.output_code import CompiledFxGraph

    kernels = [
        value
        for module in PyCodeCache.modules
        for name, value in vars(module).items()
        if name.startswith("cpp_")
    ]
    assert kernels
    return (
        torch._C._profiler._RecordFunctionFast,
        torch.autograd.profiler._is_profiler_enabled,
        torch.autograd.profiler._set_is_profiler_enabled,
        CompileEventLogger.add_record_function_data,
        InstructionTranslatorBase.log_graph_break,
        AsyncCompile.wait,
        CompiledFxGraph.post_compile,
        sorted(vars(callback_handler)),
        *kernels,
    )


@pytest.fixture(scope="module")
def compiled() -> Iterator[tuple[Any, Any, Trace]]:
    """Compile a model once, recorded; each compilation takes seconds."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = torch.compile(Twice())
    data = torch.randn(2, 4)
    with profile(schedule=schedule(wait=0, warmup=1, active=3, repeat=1)) as profiler:
        profiler.step()
        for _ in range(3):
            model(data).backward()
            profiler.step()
    with nothing_left_on():
        yield model, data, profiler.trace
    torch._dynamo.reset()


def rows_named(trace: Trace, start: str) -> list[int]:
    return [row for row, name in enumerate(trace.names()) if name.startswith(start)]


def category_of(trace: Trace, row: int) -> str:
    return trace.strings[int(trace.slices.category[row])]


def test_each_compilation_is_a_slice_that_says_what_was_compiled(compiled: Any) -> None:
    trace: Trace = compiled[2]
    rows = rows_named(trace, "torch.compile ")
    assert len(rows) >= 2
    assert {category_of(trace, row) for row in rows} == {"compile"}
    assert {int(trace.slices.kind[row]) for row in rows} == {SliceKind.RANGE}
    first, second = (trace.name_of(row) for row in rows[:2])
    assert first.startswith("torch.compile 0/0: forward (test_compile.py:")
    assert second.startswith("torch.compile 1/0: forward after the graph break at test_compile.py:")
    assert trace.slices.args.of_row(rows[0], trace.strings) == {"compile_id": "0/0"}
    assert trace.slices.flags[rows].tolist() == [0] * len(rows)


def test_the_phases_of_a_compilation_lie_within_it(compiled: Any) -> None:
    trace: Trace = compiled[2]
    (row, *_) = rows_named(trace, "_compile.compile_inner")
    chain = chain_of(trace, row)
    assert "dynamo" in chain
    assert any(name.startswith("torch.compile 0/0") for name in chain)


def test_a_graph_break_says_where_and_why(compiled: Any) -> None:
    trace: Trace = compiled[2]
    (row,) = rows_named(trace, "graph break: ")
    name = trace.name_of(row)
    assert "(test_compile.py:" in name
    assert "print" in trace.slices.args.of_row(row, trace.strings)["reason"]
    assert trace.slices.duration_ns[row] == 0
    assert chain_of(trace, row)[-1].startswith("ProfilerStep#1")
    assert any(above.startswith("torch.compile 0/0") for above in chain_of(trace, row))


def test_regions_graphs_and_kernels_have_names(compiled: Any) -> None:
    model, data, _ = compiled
    with profile() as profiler:
        model(data).backward()
    trace = profiler.trace
    kernels = rows_named(trace, "cpp_fused_")
    assert kernels
    chains = [chain_of(trace, row) for row in kernels]
    forward = [chain for chain in chains if "CompiledFunction" in chain]
    regions = {name for chain in forward for name in chain if name.startswith("Torch-Compiled")}
    assert regions == {"Torch-Compiled Region: 0/0", "Torch-Compiled Region: 1/0"}
    assert any("CompiledFunctionBackward" in chain for chain in chains)
    for chain in chains:
        assert chain[1].startswith("## Call CompiledFxGraph ")
    assert not rows_named(trace, "torch.compile ")
    description = trace.info.sources["torch.compile"]
    assert "region 0/0 is forward (test_compile.py:" in description
    assert "region 1/0 is forward after the graph break at test_compile.py:" in description


def test_recording_compiles_nothing_again_and_leaves_nothing_behind(compiled: Any) -> None:
    model, data, _ = compiled
    model(data)
    compilations = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    before = state_of_torch()
    for _ in range(2):
        with profile(), profile():
            model(data).backward()
            assert torch.autograd.profiler._is_profiler_enabled
        assert state_of_torch() == before
    assert before[0].__module__ + "." + before[0].__qualname__ == STALE  # type: ignore[attr-defined]
    assert not torch.autograd.profiler._is_profiler_enabled
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compilations


def test_compile_time_is_not_part_of_the_step(compiled: Any) -> None:
    trace: Trace = compiled[2]
    steps = step_table(trace)
    working_ns = without_compilation(trace, steps.start_ns, steps.duration_ns)
    assert len(steps) == 3
    assert (working_ns > 0).all()
    assert working_ns[0] < steps.duration_ns[0] / 2  # it compiled for most of its time
    assert working_ns[1:].tolist() == steps.duration_ns[1:].tolist()
    phases = {phase.name: phase for phase in phase_table(trace)}
    compiling = phases["compile"]
    assert compiling.total_ns == (steps.duration_ns - working_ns).sum()
    assert compiling.count == len(rows_named(trace, "torch.compile "))


def test_compilations_are_rows_of_the_table(compiled: Any) -> None:
    from stepscope.frameworks.torch.dialect.event_lists import EventList

    keys = [row.key for row in EventList(compiled[2]).key_averages()]
    assert any(key.startswith("torch.compile 0/0: forward") for key in keys)
    assert any(key.startswith("cpp_fused_") for key in keys)


def test_torchs_own_profiler_gets_its_annotations_too(compiled: Any) -> None:
    model, data, _ = compiled
    graph_calls = "## Call CompiledFxGraph "

    def seen_by_torch() -> list[str]:
        with torch.profiler.profile() as theirs:
            model(data)
        return [e.name for e in theirs.events() if e.name.startswith(graph_calls)]

    alone = seen_by_torch()
    with profile() as ours:
        beside = seen_by_torch()
        assert torch.autograd.profiler._is_profiler_enabled  # theirs has ended, ours has not
        model(data)
    assert beside == alone
    assert len(alone) == 2
    assert len(rows_named(ours.trace, graph_calls)) == 4  # each once
    assert not torch.autograd.profiler._is_profiler_enabled


def test_an_exception_while_compiling_leaves_nothing_behind(compiled: Any) -> None:
    before = state_of_torch()

    def backend(graph: Any, inputs: Any) -> Any:
        raise ZeroDivisionError("the backend fails")

    broken = torch.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(Exception, match="the backend fails"), profile() as profiler:
        broken(torch.ones(1))
    (row,) = rows_named(profiler.trace, "torch.compile ")
    assert profiler.trace.slices.flags[row] == 0
    assert state_of_torch() == before


@pytest.mark.slow
def test_a_compiler_that_is_imported_while_recording_is_heard() -> None:
    done = run_python(
        """
        import sys, torch
        from stepscope import profile
        assert "torch._dynamo" not in sys.modules
        with profile() as profiler:
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
        names = list(profiler.trace.names())
        assert any(name.startswith("torch.compile 0/0: <lambda>") for name in names), names
        assert "import torch._dynamo" in names
        assert "Torch-Compiled Region: 0/0" in names
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_programs_that_compile_nothing_do_not_import_the_compiler() -> None:
    done = run_python(
        """
        import sys, torch
        from stepscope import profile
        with profile() as profiler:
            torch.ones(1).neg()
        assert "torch._dynamo" not in sys.modules
        assert "torch.compile" not in profiler.trace.info.sources
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


TRAINS_COMPILED = """
import sys
import torch
from stepscope import profile

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        y = torch.relu(self.up(x))
        return x + self.down(y)

model = torch.compile(torch.nn.Sequential(Block(), Block()))
x = torch.ones(8, 16)
with profile(with_stack=True) as profiler:
    model(x).sum().backward()
    with torch.profiler.record_function("compiled"):
        model(x).sum().backward()
trace = profiler.trace
names = list(trace.names())
for row in range(names.index("compiled"), len(names)):
    if names[row] in ("aten::mm", "aten::addmm"):
        frames = [trace.strings[i] for i in trace.stacks.frames(int(trace.slices.stack[row]))]
        print(sorted({each for each in frames if each.endswith(": forward")}))
"""


@pytest.mark.slow
def test_what_comes_from_the_compilers_cache_stands_on_its_lines(tmp_path: Path) -> None:
    """The second run compiles nothing, and is told where the same operators come from."""
    program = tmp_path / "compiled.py"
    program.write_text(TRAINS_COMPILED, encoding="utf-8")
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    runs = [
        run_python(code, str(program), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    assert "forward" in runs[0].stdout
    assert "[]" not in runs[0].stdout
    assert runs[1].stdout == runs[0].stdout
