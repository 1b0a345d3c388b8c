"""Names, arguments, enums and schedules of paddle.profiler, and of its modules."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest
from both import OURS, THEIRS, assert_same, on_both, raised, warned

from stepscope.frameworks.paddle.event_types import TracerEventType

if TYPE_CHECKING:
    from pathlib import Path

ENUMS = ("ProfilerState", "ProfilerTarget", "SortedKeys", "SummaryView", "TracerEventType")
CALLABLES = (
    *("Profiler", "RecordEvent", "make_scheduler", "export_chrome_tracing", "export_protobuf"),
    *("load_profiler_result", "Profiler.start", "Profiler.stop", "Profiler.step"),
    *("Profiler.step_info", "Profiler.export", "Profiler.summary", "profiler.get_profiler"),
)
SCHEDULES = [
    {"closed": 1, "ready": 2, "record": 3, "repeat": 1},
    {"closed": 1, "ready": 3, "record": 3, "repeat": 3},
    {"closed": 1, "ready": 1, "record": 4, "skip_first": 1},
    {"closed": 0, "ready": 1, "record": 1},
    {"closed": 2, "ready": 0, "record": 2, "repeat": 2, "skip_first": 3},
]


def member_at(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Return names, kinds and defaults, which may be members of an enum."""
    return [
        (item.name, item.kind, getattr(item.default, "name", item.default))
        for item in inspect.signature(function).parameters.values()
    ]


def test_all_public_names_are_there() -> None:
    assert set(THEIRS.__all__) <= set(OURS.__all__)
    for module in ("profiler", "profiler_statistic", "statistic_helper", "timer", "utils"):
        assert inspect.ismodule(getattr(OURS, module))


@pytest.mark.parametrize("path", CALLABLES)
def test_arguments_and_defaults(path: str) -> None:
    theirs = parameters(member_at(THEIRS, path))
    ours = parameters(member_at(OURS, path))
    assert ours[: len(theirs)] == theirs  # ours may be more


@pytest.mark.parametrize("name", ENUMS)
def test_members_are_paddles_and_print_so(name: str) -> None:
    theirs, ours = getattr(THEIRS, name), getattr(OURS, name)
    for member in theirs.__members__:
        one, other = getattr(theirs, member), getattr(ours, member)
        assert one == other
        assert other == one
        assert hash(one) == hash(other)
        assert (str(one), repr(one), f"{one}", one.name, one.value) == (
            *(str(other), repr(other), f"{other}", other.name, other.value),
        )
    assert list(theirs.__members__) == list(ours.__members__)


def test_a_type_that_was_imported_before_paddle_equals_paddles() -> None:
    assert TracerEventType.Kernel == THEIRS.TracerEventType.Kernel
    assert TracerEventType.Kernel != THEIRS.TracerEventType.Memcpy
    assert str(TracerEventType.Kernel) == str(THEIRS.TracerEventType.Kernel)


@pytest.mark.parametrize("arguments", SCHEDULES)
@pytest.mark.filterwarnings("ignore")
def test_schedules(arguments: dict[str, int]) -> None:
    assert_same(lambda m: [m.make_scheduler(**arguments)(step).name for step in range(40)])
    assert_same(lambda m: warned(lambda: m.make_scheduler(**arguments)))


@pytest.mark.parametrize("wrong", [{"record": 0}, {"closed": -1}, {"ready": -1}, {"repeat": -1}])
def test_schedules_that_are_refused(wrong: dict[str, int]) -> None:
    arguments = {"closed": 1, "ready": 1, "record": 1, **wrong}
    assert_same(lambda m: raised(lambda: m.make_scheduler(**arguments)))
    assert_same(lambda m: raised(lambda: m.make_scheduler(closed=1, ready=1, record=1)(-1)))


@pytest.mark.parametrize("pair", [(0, 2), (1, 3), (3, 10), [2, 3], (-2, 2)])
@pytest.mark.filterwarnings("ignore")
def test_a_pair_of_steps(pair: Any) -> None:
    def states(module: Any) -> list[str]:
        profiler = module.Profiler(scheduler=pair, on_trace_ready=lambda _: None)
        return [profiler.scheduler(step).name for step in range(14)]

    assert_same(states)


def test_a_pair_that_records_nothing_is_refused() -> None:
    for pair in ((3, 3), (4, 2), (1, 2, 3)):
        theirs, ours = on_both(lambda m, pair=pair: raised(lambda: m.Profiler(scheduler=pair)))
        assert theirs
        assert ours


def test_a_target_that_is_not_here_is_dropped_with_a_warning() -> None:
    def run(module: Any) -> Any:
        targets = [module.ProfilerTarget.CPU, module.ProfilerTarget.XPU]
        made: list[Any] = []
        categories = warned(lambda: made.append(module.Profiler(targets=targets)))
        return categories, {target.name for target in made[0].targets}

    assert_same(run)


def test_arithmetic_of_ranges_is_paddles() -> None:
    def run(module: Any) -> Any:
        helper = module.statistic_helper
        first, second = [(0, 5), (3, 8), (10, 12)], [(4, 11)]
        return (
            helper.sum_ranges(helper.merge_self_ranges(list(first))),
            helper.merge_ranges(list(first), list(second)),
            helper.intersection_ranges(list(first), list(second)),
            helper.subtract_ranges(list(first), list(second)),
        )

    assert_same(run)


def test_a_profiler_from_a_file(tmp_path: Path) -> None:
    scheduler = {"closed": 1, "ready": 1, "record": 2, "repeat": 1}
    calls = {
        "make_scheduler": scheduler,
        "export_chrome_tracing": {"dir_name": str(tmp_path / "log")},
    }
    config = {
        key: {name: {"module": "paddle.profiler", "use_direct": False, "args": [], "kwargs": given}}
        for key, (name, given) in zip(("scheduler", "on_trace_ready"), calls.items(), strict=True)
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"targets": ["CPU"], "timer_only": False, **config}))

    def run(module: Any) -> Any:
        profiler = module.profiler.get_profiler(str(path))
        with profiler:
            for _ in range(5):
                profiler.step()
        states = [profiler.scheduler(step).name for step in range(6)]
        return states, profiler.timer_only, len(list((tmp_path / "log").iterdir())) > 0

    assert_same(run)
    assert len(list((tmp_path / "log").iterdir())) == 2
