"""Results: trees of nodes, memory, files in both formats."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from both import (
    OURS,
    THEIRS,
    Numbers,
    Training,
    assert_same,
    count,
    nodes,
    on_both,
    paddle,
    recorded,
    tree,
    warned,
)

if TYPE_CHECKING:
    from pathlib import Path

NODE_FIELDS = (
    *("name", "type", "start_ns", "end_ns", "process_id", "thread_id", "correlation_id"),
    *("input_shapes", "dtypes", "callstack", "attributes", "op_id"),
    *("children_node", "runtime_node", "device_node", "mem_node"),
)


def test_the_tree_of_a_training_step() -> None:
    training = Training()
    result = assert_same(lambda m: tree(recorded(m, training.step).profiler_result))
    assert (2, "Forward", "Net") in result


def test_phases_of_loaders_models_and_optimizers() -> None:
    training = Training()

    def work() -> None:
        for inputs, _ in paddle.io.DataLoader(Numbers(), batch_size=4):
            training.model(inputs).sum().backward()
            training.stepper.step()

    def run(module: Any) -> Any:
        number = count(recorded(module, work).profiler_result)
        wanted = ("Dataloader", "Forward", "Backward", "Optimization", "ProfileStep")
        return {key: n for key, n in number.items() if key[0] in wanted}

    assert ("Backward", "Gradient Backward") in assert_same(run)


@pytest.mark.parametrize("full_graph", [True, False])
def test_what_to_static_launches(full_graph: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIN_GRAPH_SIZE", "0")
    static = paddle.jit.to_static(Training().model, full_graph=full_graph)
    inputs = paddle.ones([2, 4])
    with paddle.no_grad():
        static(inputs)
        theirs, ours = on_both(lambda m: count(recorded(m, lambda: static(inputs)).profiler_result))
    launches = {key for key in ours if key[0] == "StaticKernelLaunch"}
    assert launches
    assert {key: ours[key] for key in launches} == {key: theirs[key] for key in launches}


def test_ranges_of_all_kinds() -> None:
    def work(module: Any) -> None:
        types = module.TracerEventType
        with module.RecordEvent("block"), module.RecordEvent("typed", types.Forward):
            paddle.ones([1])

        @module.RecordEvent("decorated", event_type=types.PythonOp)
        def function() -> int:
            return 3

        assert function() == 3
        event = module.RecordEvent(name="by hand")
        event.begin()
        event.end()

    def run(module: Any) -> Any:
        result = tree(recorded(module, lambda: work(module)).profiler_result)
        mine = ("block", "typed", "decorated", "by hand")
        return [(depth, kind, name) for depth, kind, name in result if name in mine]

    assert len(assert_same(run)) == 4


def test_a_second_end_is_harmless() -> None:
    def run(module: Any) -> Any:
        def work() -> None:
            event = module.RecordEvent("twice")
            event.begin()
            event.end()
            event.end()

        return count(recorded(module, work).profiler_result)["PythonUserDefined", "twice"]

    theirs, ours = on_both(run)
    assert (theirs >= 1, ours) == (True, 1)  # Paddle may have it twice


@pytest.mark.parametrize("name", ["Operator", "Kernel", "UserDefined", "Communication"])
def test_types_that_are_not_for_python_warn_and_are_not_recorded(name: str) -> None:
    def run(module: Any) -> Any:
        def work() -> None:
            with module.RecordEvent("mine", getattr(module.TracerEventType, name)):
                pass

        made: list[Any] = []
        categories = warned(lambda: made.append(recorded(module, work)))
        is_there = any(node.name == "mine" for _, node in nodes(made[0].profiler_result))
        return UserWarning in categories, is_there

    assert assert_same(run) == (True, False)


def test_fields_of_nodes() -> None:
    training = Training()

    def run(module: Any) -> Any:
        result = recorded(module, training.step).profiler_result
        (root,) = result.get_data().values()
        first = root.children_node[0]
        fixed = (root.name, root.type.name, root.start_ns, root.end_ns, root.process_id)
        kinds = [type(getattr(first, name)).__name__ for name in NODE_FIELDS if name != "type"]
        keys = {re.sub(r"^\d+$", "thread", key) for key in result.get_extra_info()}
        return fixed, kinds, keys, result.get_version()

    assert_same(run)


def test_memory_of_a_step() -> None:
    training = Training()

    def run(module: Any) -> Any:
        result = recorded(module, training.step, profile_memory=True).profiler_result
        counts: Counter[Any] = Counter()
        for _, node in nodes(result):
            for item in node.mem_node:
                if item.type.name in ("Allocate", "Free"):
                    counts[item.type.name, item.place, item.increase_bytes] += 1
        return counts

    theirs, ours = on_both(run)
    assert {key: n for key, n in ours.items() if key[0] == "Allocate"} == {
        key: n for key, n in theirs.items() if key[0] == "Allocate"
    }


def test_results_are_numbered_through_the_program() -> None:
    def run(module: Any) -> list[int]:
        spans: list[int] = []

        def state(step: int) -> Any:
            recorded = step in (0, 2)
            return getattr(module.ProfilerState, "RECORD_AND_RETURN" if recorded else "CLOSED")

        def ready(profiler: Any) -> None:
            spans.append(profiler.profiler_result.get_span_index())

        for _ in range(2):
            with module.Profiler(scheduler=state, on_trace_ready=ready) as profiler:
                for _ in range(4):
                    profiler.step()
            del profiler
        return [span - spans[0] for span in spans]

    assert assert_same(run) == [0, 1, 2, 3]


# ---- files


def files_of(module: Any, folder: Path, suffix: str) -> list[Path]:
    training = Training()
    handlers = {"json": module.export_chrome_tracing, "pb": module.export_protobuf}
    profiler = module.Profiler(
        targets=[module.ProfilerTarget.CPU],
        on_trace_ready=handlers[suffix](str(folder), worker_name="w"),
    )
    with profiler:
        training.step()
    return sorted(folder.iterdir())


@pytest.mark.parametrize("suffix", ["json", "pb"])
def test_handlers_name_their_files(suffix: str, tmp_path: Path) -> None:
    def run(module: Any) -> list[str]:
        names = [path.name for path in files_of(module, tmp_path / module.__name__, suffix)]
        return [re.sub(r"\d+", "N", name) for name in names]

    assert assert_same(run) == [f"w_time_N_N_N_N_N_N_N.paddle_trace.{suffix}"]


def kind_of(value: object) -> str:
    """Return what JSON calls it; times in us are whole ones in Paddle's files."""
    return "number" if isinstance(value, int | float) else type(value).__name__


def test_fields_of_chrome_files(tmp_path: Path) -> None:
    def run(module: Any) -> Any:
        (path,) = files_of(module, tmp_path / module.__name__, "json")
        file = json.loads(path.read_text())
        events = file["traceEvents"]
        kinds = Counter(item.get("cat") for item in events if item.get("ph") == "X")
        of_operators = [item for item in events if item.get("cat") == "Operator"]
        name = re.sub(r"\[.*", "", of_operators[0]["name"])
        return (
            {key: type(value).__name__ for key, value in file.items() if key != "traceEvents"},
            kinds,
            {key: kind_of(value) for key, value in of_operators[0].items()},
            set(of_operators[0]["args"]),
            name,
        )

    theirs, ours = on_both(run)
    for of_theirs, of_ours in zip(theirs, ours, strict=True):
        if isinstance(of_theirs, dict) and not isinstance(of_theirs, Counter):
            assert of_theirs.items() <= of_ours.items()  # ours may say more
        elif isinstance(of_theirs, set):
            assert of_theirs <= of_ours
        else:
            assert of_ours == of_theirs


@pytest.mark.parametrize("reader", [THEIRS, OURS])
def test_protobuf_files_are_read_by_both(reader: Any, tmp_path: Path) -> None:
    (ours,) = files_of(OURS, tmp_path / "ours", "pb")
    (theirs,) = files_of(THEIRS, tmp_path / "theirs", "pb")
    result = reader.load_profiler_result(filename=str(ours))
    number = count(result)
    assert number["Operator", "matmul dygraph"] == 2
    if reader is OURS:  # Paddle cannot read what it writes
        expected = reader.load_profiler_result(str(theirs))
        assert number == count(expected)
        assert tree(result) == tree(expected)
        assert result.get_version() == expected.get_version()


def test_export_and_save(tmp_path: Path) -> None:
    training = Training()

    def run(module: Any) -> list[str]:
        folder = tmp_path / module.__name__
        folder.mkdir()
        profiler = recorded(module, training.step)
        profiler.export(path=str(folder / "a.json"), format="json")
        profiler.export(str(folder / "b.pb"), "pb")
        profiler.profiler_result.save(str(folder / "c.json"), "json")
        return sorted(path.name for path in folder.iterdir() if path.stat().st_size > 500)

    assert assert_same(run) == ["a.json", "b.pb", "c.json"]


def test_kernel_statistics_of_to_static_run_on_our_results() -> None:
    from paddle.jit.sot.profiler import kernel_stats

    training = Training()

    def run(module: Any) -> Any:
        visitor = kernel_stats.KernelStatsVisitor()
        profiler = recorded(module, training.step)
        visitor(profiler.profiler_result.get_data())
        return [(kernel.name, kernel.run_mode) for kernel in visitor.kernels]

    assert len(assert_same(run)) > 10
