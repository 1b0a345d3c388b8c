"""Details that torch's own tools and files tell of a recording: numbers, flows, keywords, steps."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._C._profiler import _ExperimentalConfig, _ExtraFields_PyCall, _RecordFunctionFast
from torch.autograd.profiler import profile as older_profile
from torch.profiler import ProfilerActivity, _utils, profile, record_function, schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Both

    Exported = Callable[[Any], dict[str, Any]]

one = torch.ones(1)
RELEASE = tuple(map(int, torch.__version__.split(".")[:2]))
HAS_METADATA_TEXT = RELEASE < (2, 15)  # since then events have a dict of it
IGNORES_ADJUSTING = RELEASE >= (2, 15)


def tree(prof: Any) -> list[Any]:
    return list(_utils.traverse_dfs(prof.profiler.kineto_results.experimental_event_tree()))


def test_a_tensor_that_is_gone_leaves_its_address_to_none(both: Both) -> None:
    def program() -> int:
        with profile(profile_memory=True, record_shapes=True) as prof:
            for _ in range(50):
                torch.ones(1)
        filled = [node for node in tree(prof) if node.name == "aten::fill_"]
        return len({node.extra_fields.inputs[0].impl_ptr for node in filled})

    assert both(program) == 50


def test_numbers_of_blocks_that_a_tensor_had(both: Both) -> None:
    def program() -> list[Any]:
        with profile(profile_memory=True, record_shapes=True) as prof:
            x = torch.ones(1)
            for _ in range(2):
                x.set_()
                x.set_(torch.ones(1).storage())
            x.resize_(40)
            x.view(40)
            del x
        values = [node.extra_fields for node in tree(prof) if node.name == "[memory]"]
        return [(item.id, item.allocation_id, item.alloc_size < 0) for item in values]

    both(program)


def test_threads_that_begin_meanwhile_have_no_calls_in_the_tree(both: Both) -> None:
    def begun_meanwhile() -> None:
        one.neg()

    def program() -> bool:
        with profile(with_stack=True) as prof:
            thread = threading.Thread(target=begun_meanwhile)
            thread.start()
            thread.join()
        calls = [n for n in tree(prof) if isinstance(n.extra_fields, _ExtraFields_PyCall)]
        return any(call.name.endswith(": begun_meanwhile") for call in calls)

    assert both(program) is False


def test_a_range_that_nobody_ends_is_inside_of_the_one_around_it(both: Both) -> None:
    def program() -> list[Any]:
        with profile() as prof:
            with record_function("outer"):
                unended = record_function("inner").__enter__()
                one.neg()
            one.abs()
        del unended
        return [(node.name, node.parent and node.parent.name) for node in tree(prof)]

    both(program)


def test_numbers_of_events_are_unique_in_the_process(both: Both) -> None:
    def program() -> bool:
        seen: list[int] = []
        for _ in range(2):
            with profile() as prof:
                one.neg()
            assert prof.profiler is not None
            seen += [event.correlation_id() for event in prof.profiler.kineto_results.events()]
        return len(set(seen)) == len(seen)

    assert both(program)


def test_flows_of_events_are_those_of_the_file(both: Both, exported: Exported) -> None:
    def program() -> Any:
        with profile() as prof:
            x = torch.ones(1, requires_grad=True)
            torch.sigmoid(x + x).backward()
        events: Any = prof.events()
        flows = [(e.name, e.flow_id, e.flow_type, e.flow_start) for e in events if e.flow_id]
        written = exported(prof)["traceEvents"]
        named = {e["ts"]: e["name"] for e in written if e["ph"] == "X"}
        marks = [e for e in written if e.get("cat") == "fwdbwd"]
        return sorted(flows), sorted((e["id"], e["ph"], named[e["ts"]]) for e in marks)

    flows, marks = both(program)
    assert flows
    assert marks


def test_keyword_inputs_in_files(both: Both, exported: Exported) -> None:
    given = {
        "stream": 0, "grid": "lambda x : x + 1", "yes": True, "quoted": 'a"', "list": ["a", "b"],
        "mixed": ["a", 1], "numbers": [1, 2],
    }  # fmt: skip

    def program() -> Any:
        with profile(record_shapes=True) as prof:
            with _RecordFunctionFast("function", [one], given):
                one.neg()
            with _RecordFunctionFast("range", [one], {"stream": "a", "scope": "user_scope"}):
                one.neg()
        values = [e for e in exported(prof)["traceEvents"] if e["name"] in {"function", "range"}]
        return [
            (e["cat"], {key: value for key, value in e["args"].items() if key in given})
            for e in values
        ]

    both(program)


def test_overloads_in_files_and_numbers_of_functions(both: Both, exported: Exported) -> None:
    def program() -> Any:
        config = _ExperimentalConfig(capture_overload_names=True, expose_kineto_event_metadata=True)
        with profile(experimental_config=config) as prof, record_function("range"):
            torch.add(1, 2)
        written = [e for e in exported(prof)["traceEvents"] if e.get("cat") == "cpu_op"]
        events: Any = prof.events()
        numbered = HAS_METADATA_TEXT and ["Ev Idx" in e.metadata_json for e in events]
        return [(e["name"], e["args"]["Record function id"]) for e in written], numbered

    both(program)


@pytest.mark.skipif(IGNORES_ADJUSTING, reason="torch ignores it since 2.15")
def test_adjusted_steps_cross_no_call(both: Both, exported: Exported) -> None:
    def a_step(prof: Any) -> None:
        one.neg()
        prof.step()

    def program() -> Any:
        with profile(
            with_stack=True,
            schedule=schedule(wait=0, warmup=0, active=3, repeat=1),
            experimental_config=_ExperimentalConfig(adjust_profiler_step=True),
        ) as prof:
            for _ in range(3):
                a_step(prof)
        events = exported(prof)["traceEvents"]
        calls = [span(e) for e in events if "a_step" in e["name"]]
        steps = [span(e) for e in events if "ProfilerStep" in e["name"] and e["ph"] == "X"]
        crossing = [(s, c) for s in steps for c in calls if s[0] < c[0] < s[1] < c[1]]
        return len(calls), len(steps), len(crossing)

    def span(event: dict[str, Any]) -> tuple[float, float]:
        return event["ts"], event["ts"] + event["dur"]

    assert both(program) == (3, 3, 0)


def test_what_torch_refuses_or_says(both: Both, caplog: pytest.LogCaptureFixture) -> None:
    def program() -> Any:
        none: Any = [{ProfilerActivity.CPU: ["NONE"]}]
        refused = pytest.raises(RuntimeError, match="activity type name: 'NONE'")
        with refused, profile(activities=none):
            pass
        caplog.clear()
        with caplog.at_level(logging.WARNING, "torch.autograd.profiler"):
            with profile(post_processing_timeout_s=0.0) as prof:
                for _ in range(10):
                    one.neg()
            count = len(prof.events() or ())
        values = [r.getMessage() for r in caplog.records]
        return count < 10, any("timed out" in text and "partial" in text for text in values)

    assert both(program) == (True, True)


def test_numbers_of_the_older_profiler(both: Both) -> None:
    def program() -> Any:
        with older_profile(use_kineto=True) as prof:
            one.neg()
        assert prof.function_events
        stats: Any = prof._stats
        names = [name for name in dir(stats) if not name.startswith("_")]
        return str(prof.profiler_kind), {name: getattr(stats, name) > 0 for name in names}

    both(program)
