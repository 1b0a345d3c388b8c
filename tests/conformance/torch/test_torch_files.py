"""What files hold."""

from __future__ import annotations

import gc
import re
import tempfile
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler import profile as autograd_profile
from torch.profiler import ProfilerActivity, profile, record_function, schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Both

    Export = Callable[[Any], dict[str, Any]]


def test_events_have_torchs_arguments(both: Both, exported: Export) -> None:
    a = torch.rand(2, 3)

    def program() -> Any:
        with profile(record_shapes=True) as prof:
            torch.cat([a, a])
            torch.add(a, a, alpha=2)
        keys = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
        events = [e for e in exported(prof)["traceEvents"] if e.get("cat") == "cpu_op"]
        return [(e["name"], *(e["args"].get(key) for key in keys)) for e in events]

    both(program)


def test_the_span_and_its_ends(both: Both, exported: Export) -> None:
    def program() -> Any:
        with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=1)) as prof:
            for _ in range(2):
                torch.ones(1)
                prof.step()
        text = exported(prof)
        # Our own file also tells where it comes from.
        keys = sorted(key for key in text if key != "stepscope")
        names = {(e["ph"], re.sub(r"\d+", "N", e["name"])) for e in text["traceEvents"]}
        spans = [e for e in text["traceEvents"] if e.get("cat") == "Trace"]
        return keys, sorted(n for n in names if n[0] != "M"), [e["pid"] for e in spans]

    both(program)


def test_memory_events(both: Both, exported: Export) -> None:
    def program() -> Any:
        with profile(profile_memory=True, record_shapes=True) as prof:
            x = torch.rand(10, 10)
            del x
            x = torch.rand(10, 10)
        del x
        keys = ("Bytes", "Device Type", "Device Id", "Total Reserved")
        events = [e for e in exported(prof)["traceEvents"] if e["name"] == "[memory]"]
        return [[e["args"][key] for key in keys] for e in events]

    both(program)


def test_backward_functions_are_tied_to_their_operators(both: Both, exported: Export) -> None:
    def program() -> Any:
        with autograd_profile(use_kineto=True) as prof:
            x = torch.ones(1, requires_grad=True)
            torch.nn.functional.binary_cross_entropy_with_logits(x + x, torch.ones(1)).backward()
        events = exported(prof)["traceEvents"]
        names = {e["ts"]: e["name"] for e in events if e["ph"] == "X"}
        ends: dict[int, list[str]] = {}
        for event in events:
            if event.get("cat") == "fwdbwd":
                ends.setdefault(event["id"], []).append(names[event["ts"]])
        return sorted(sorted(value) for value in ends.values())

    both(program)


def test_metadata(both: Both, exported: Export) -> None:
    def program() -> Any:
        prof = profile()
        prof.preset_metadata_json("preset", '{"a": 1}')
        with prof:
            prof.add_metadata("text", "a value")
            prof.add_metadata_json("list", "[1, 2]")
        text = exported(prof)
        return [text[key] for key in ("preset", "text", "list")]

    both(program)


def test_stacks_go_into_a_file_that_is_held_open(both: Both) -> None:
    config = _ExperimentalConfig(verbose=True)

    def program() -> Any:
        with autograd_profile(with_stack=True, use_kineto=True, experimental_config=config) as prof:
            torch.mm(torch.ones(9, 9), torch.ones(9, 9))
        with tempfile.NamedTemporaryFile(mode="w+") as file:
            prof.export_stacks(file.name, "self_cpu_time_total")
            lines = file.readlines()
        return bool(lines), all(re.fullmatch(r".* \d+", line.rstrip()) for line in lines)

    assert both(program) == (True, True)


def test_collections_of_garbage(both: Both, exported: Export) -> None:
    config = _ExperimentalConfig(record_python_gc_info=True)
    cpu = [ProfilerActivity.CPU]

    def program() -> Any:
        with profile(activities=cpu, with_stack=True, experimental_config=config) as prof:
            gc.collect()
        return any(event["name"] == "Python GC" for event in exported(prof)["traceEvents"])

    assert both(program)


def test_collectives(both: Both, exported: Export) -> None:
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    x = torch.ones(4, 4)

    def program() -> Any:
        with profile(record_shapes=True) as prof:
            distributed.all_reduce(x)
            distributed.broadcast(x, 0)
            distributed.all_reduce(x, async_op=True).wait()
        text = exported(prof)
        dims = [e["args"]["Input Dims"] for e in text["traceEvents"] if "gloo" in e["name"]]
        events = [e for e in prof.events() if "gloo" in e.name]
        values = [(e.name, e.is_async, e.input_shapes) for e in events]
        return sorted(values), dims, text["distributedInfo"]

    try:
        both(program)
    finally:
        distributed.destroy_process_group()


def test_ranges_have_their_category(both: Both, exported: Export) -> None:
    def program() -> Any:
        with profile() as prof, record_function("range"):
            torch.ones(1)
        chosen = [e for e in exported(prof)["traceEvents"] if e["ph"] == "X"]
        return sorted((e["cat"], e["name"]) for e in chosen if e["cat"] != "Trace")

    both(program)


def test_switches_of_the_process(both: Both, exported: Export) -> None:
    native = torch._C._profiler
    x = torch.ones(2, 6, requires_grad=True)

    def program() -> Any:
        collected = []
        for is_on in (False, True):
            native._set_fwd_bwd_enabled_val(is_on)
            native._set_record_concrete_inputs_enabled_val(is_on)
            with profile(record_shapes=True) as prof:
                x.view(3, 4).sum().backward()
            flows = sum(e.get("cat") == "fwdbwd" for e in exported(prof)["traceEvents"])
            values = [e.concrete_inputs for e in prof.events() if e.name == "aten::view"]
            collected.append((flows, values))
        return collected

    both(program)
