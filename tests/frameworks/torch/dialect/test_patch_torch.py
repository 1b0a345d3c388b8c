"""patch_torch(): code that uses torch.profiler records through Stepscope, with no change to it."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import torch
from torch.profiler import ProfilerAction, ProfilerActivity, record_function, schedule
from torch.profiler import profile as held_before

import stepscope
from command_line import saved_trace, script, stepscope_run
from recording import run_python
from stepscope import patch_torch, unpatch_torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CPU = ProfilerActivity.CPU
CLASSES = (
    torch.profiler.profile,
    torch.profiler._KinetoProfile,
    torch.autograd.profiler.profile,
)
INITS = [vars(cls)["__init__"] for cls in CLASSES]
one = torch.ones(1)


@pytest.fixture(autouse=True)
def _torch_is_as_before() -> Iterator[None]:
    yield
    assert not is_patched(), "torch is still patched"


def is_patched() -> bool:
    return [vars(cls)["__init__"] for cls in CLASSES] != INITS


def is_ours(profiler: object) -> bool:
    return isinstance(profiler, stepscope.torch.LowLevelProfile)


def names(profiler: Any) -> list[str]:
    return [event.name for event in profiler.events()]


# ---- what records


def test_a_profiler_made_inside_the_block_is_ours_and_torchs_alike() -> None:
    with patch_torch():
        profiler = torch.profiler.profile(activities=[CPU])
    with profiler, record_function("mine"):
        one.neg()
    assert is_ours(profiler)
    assert isinstance(profiler, torch.profiler.profile)
    assert isinstance(profiler.events(), stepscope.torch.EventList)
    assert names(profiler) == ["mine", "aten::neg"]


def test_a_name_that_was_imported_before_is_patched_too() -> None:
    with patch_torch(), held_before(activities=[CPU]) as profiler:
        one.neg()
    assert is_ours(profiler)
    assert names(profiler) == ["aten::neg"]


def test_what_is_made_outside_the_block_is_torchs() -> None:
    with patch_torch():
        pass
    with torch.profiler.profile(activities=[CPU]) as profiler:
        one.neg()
    assert not is_ours(profiler)
    assert "aten::neg" in names(profiler)


def test_one_that_was_made_before_goes_on_to_be_torchs() -> None:
    profiler = torch.profiler.profile(activities=[CPU])
    with patch_torch(), profiler:
        one.neg()
    assert type(profiler.events()) is torch.autograd.profiler_util.EventList
    assert "aten::neg" in names(profiler)


def test_one_that_was_made_inside_goes_on_to_be_ours() -> None:
    with patch_torch():
        profiler = torch.profiler.profile(activities=[CPU])
    with profiler:
        one.neg()
    assert is_ours(profiler)
    assert names(profiler) == ["aten::neg"]


def test_a_schedule_and_a_handler_of_torchs(tmp_path: Path) -> None:
    delivered = []
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path), "worker")

    def ready(profiler: torch.profiler.profile) -> None:
        delivered.append((profiler.step_num, profiler.current_action))
        handler(profiler)

    with (
        patch_torch(),
        torch.profiler.profile(
            activities=[CPU], schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=ready
        ) as profiler,
    ):
        for _ in range(4):
            one.neg()
            profiler.step()
    assert delivered == [(4, ProfilerAction.NONE)]
    (written,) = tmp_path.glob("worker.*.pt.trace.json")
    events = json.loads(written.read_bytes())["traceEvents"]
    assert sum(event["name"] == "aten::neg" for event in events) == 2


def test_the_low_level_profiler() -> None:
    with patch_torch():
        profiler = torch.profiler._KinetoProfile(activities=[CPU])
        profiler.prepare_trace()
        one.abs()
        profiler.start_trace()
        one.neg()
        profiler.stop_trace()
    assert is_ours(profiler)
    assert names(profiler) == ["aten::neg"]


def test_the_older_profiler_of_autograd() -> None:
    with patch_torch(), torch.autograd.profiler.profile(record_shapes=True) as profiler:
        one.neg()
        assert str(profiler) == "<unfinished torch.autograd.profile>"
        with pytest.raises(RuntimeError, match="didn't finish"):
            profiler.function_events  # noqa: B018
    assert is_ours(profiler)
    assert [event.name for event in profiler.function_events] == ["aten::neg"]
    assert profiler.key_averages()[0].key == "aten::neg"
    assert profiler.total_average().count == 1
    assert profiler.self_cpu_time_total > 0
    assert str(profiler) == profiler.table()
    with pytest.raises(RuntimeError, match="not reentrant"), profiler:
        pass


def test_the_older_profiler_may_be_off() -> None:
    with patch_torch(), torch.autograd.profiler.profile(enabled=False) as profiler:
        one.neg()
    assert profiler is None


def test_both_record_side_by_side() -> None:
    """The patch takes the profilers of the program; ours and torch's collectors do not meet."""
    theirs = torch.profiler.profile(activities=[CPU])
    with patch_torch():
        ours = torch.profiler.profile(activities=[CPU])
    with theirs, ours:
        one.neg()
    assert (is_ours(theirs), is_ours(ours)) == (False, True)
    assert "aten::neg" in names(theirs)
    assert names(ours) == ["aten::neg"]


# ---- subclasses


class Tagged(torch.profiler.profile):
    """A subclass from before the patch, with a constructor and a method of its own."""

    def __init__(self, tag: str, **options: Any) -> None:
        super().__init__(**options)
        self.tag = tag
        self.steps = 0

    def step(self) -> None:
        super().step()
        self.steps += 1


class CallsByName(torch.profiler.profile):
    """A subclass that does not use super()."""

    def __init__(self) -> None:
        torch.profiler.profile.__init__(self, activities=[CPU])


class OfTagged(Tagged):
    pass


@pytest.mark.parametrize("cls", [Tagged, OfTagged])
def test_a_subclass_keeps_its_ways(cls: type[Tagged]) -> None:
    with patch_torch():
        profiler = cls("mine", activities=[CPU])
    with profiler:
        one.neg()
        profiler.step()
    assert is_ours(profiler)
    assert isinstance(profiler, cls)
    assert (profiler.tag, profiler.steps, profiler.step_num) == ("mine", 1, 1)
    assert names(profiler) == ["aten::neg"]
    assert type(profiler).__qualname__ == cls.__qualname__
    assert not is_ours(cls("other", activities=[CPU]))


def test_a_subclass_that_names_its_base() -> None:
    with patch_torch(), CallsByName() as profiler:
        one.neg()
    assert is_ours(profiler)
    assert names(profiler) == ["aten::neg"]


def test_a_subclass_that_is_made_inside() -> None:
    with patch_torch():

        class Inside(torch.profiler.profile):
            pass

        with Inside(activities=[CPU]) as profiler:
            one.neg()
    assert is_ours(profiler)
    assert not is_ours(Inside(activities=[CPU]))


class Closed(torch.profiler.profile):
    """A class from which nobody else may derive."""

    def __init_subclass__(cls) -> None:
        raise TypeError("derive from something else")


def test_what_cannot_be_turned_into_ours_records_with_torchs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with patch_torch(), Closed(activities=[CPU]) as profiler:
        one.neg()
    assert not is_ours(profiler)
    assert "aten::neg" in names(profiler)
    assert "Closed records with torch's own profiler" in capsys.readouterr().err


# ---- patching


def test_patches_nest_and_the_last_one_restores() -> None:
    patch_torch()
    patch_torch()
    with patch_torch():
        assert is_patched()
    assert is_patched()
    unpatch_torch()
    assert is_patched()
    unpatch_torch()
    assert not is_patched()
    unpatch_torch()  # one too many
    assert not is_patched()
    with patch_torch():
        assert is_patched()


def test_an_exception_in_the_block_ends_the_patch() -> None:
    with pytest.raises(KeyError), patch_torch():
        raise KeyError
    assert not is_patched()


def test_the_signature_stays_readable() -> None:
    """Lightning passes on what the signature names."""
    before = inspect.signature(torch.profiler.profile.__init__)
    with patch_torch():
        assert inspect.signature(torch.profiler.profile.__init__) == before


def test_torchs_other_names_are_left_alone() -> None:
    def others() -> dict[str, Any]:
        return {
            f"{module.__name__}.{name}": value
            for module in (torch.profiler, torch.profiler.profiler, torch.autograd.profiler)
            for name, value in vars(module).items()
        }

    before = others()
    with patch_torch():
        during = others()
    assert all(during[name] is value for name, value in before.items())
    assert during.keys() == before.keys()


@pytest.mark.slow
def test_a_torch_that_comes_later_is_patched_when_it_does() -> None:
    done = run_python(
        """
        import sys
        import stepscope
        patch = stepscope.patch_torch()
        assert "torch" not in sys.modules and "numpy" not in sys.modules
        with patch:
            import torch
            from torch.profiler import profile, ProfilerActivity
            with profile(activities=[ProfilerActivity.CPU]) as p:
                torch.ones(1).neg()
        assert isinstance(p, stepscope.profile), type(p)
        assert not isinstance(profile(activities=[ProfilerActivity.CPU]), stepscope.profile)
        assert not any(type(f).__module__.startswith("stepscope") for f in sys.meta_path)
        """
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_patch_that_ends_before_torch_comes_leaves_no_trace() -> None:
    done = run_python(
        """
        import sys
        import stepscope
        with stepscope.patch_torch():
            pass
        assert not any(type(f).__module__.startswith("stepscope") for f in sys.meta_path)
        import torch
        assert not isinstance(torch.profiler.profile(), stepscope.profile)
        """
    )
    assert done.returncode == 0, done.stderr


# ---- stepscope run --patch-torch

SCRIPT = """
import torch
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU]) as p:
    torch.ones(3).neg()
print("module:", type(p.events()).__module__)
print(p.key_averages().table(row_limit=-1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("patched", [True, False])
def test_a_program_that_uses_torchs_profiler(patched: bool, tmp_path: Path) -> None:
    script(tmp_path, SCRIPT)
    options = ["--patch-torch"] if patched else []
    done = stepscope_run(*options, "--no-summary", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    module = (
        "stepscope.frameworks.torch.dialect.event_lists"
        if patched
        else "torch.autograd.profiler_util"
    )
    assert f"module: {module}" in done.stdout
    assert "aten::neg" in done.stdout
    assert "aten::neg" in set(saved_trace(tmp_path).names())
