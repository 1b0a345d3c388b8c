"""The memory timeline: what blocks are for, and the files that tell of it."""

from __future__ import annotations

import gc
import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_memory import Event, Said, trace_with_memory
from made_trace import Call, trace_of_calls
from stepscope import read_trace
from stepscope.analysis.memory.blocks import ALWAYS, NEVER, NO_BLOCK, Blocks, block_at
from stepscope.analysis.memory.timeline import Action, Category, NoMemoryError, memory_timeline
from stepscope.formats.memory_timeline import export_memory_timeline
from stepscope.trace.model import MemoryOwner, SliceFlags

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import Trace

# A training step, in µs: forward 0-100, backward 100-200, the optimizer 200-300.
FORWARD = Call("aten::mm", 10, 90)
BACKWARD = Call("MmBackward0", 110, 190, flags=SliceFlags.BACKWARD)
IN_BACKWARD = Call("aten::mm", 120, 180)
OPTIMIZER = Call("Optimizer.step#Adam.step", 210, 290, category="user_annotation")
STEP = [FORWARD, BACKWARD, IN_BACKWARD, OPTIMIZER]


def block(allocated: float, freed: float | None = None, address: int = 0x1000) -> list[Event]:
    events = [Event(allocated, 64, address)]
    return events if freed is None else [*events, Event(freed, -64, address)]


def category_of(
    events: list[Event], statements: list[Said] | None = None, calls: list[Call] | None = None
) -> Category:
    timeline = memory_timeline(trace_with_memory(calls or STEP, events, statements or []))
    (category,) = timeline.category
    return Category(category)


class TestCategories:
    def test_forward_memory_that_backward_finds_is_an_activation(self) -> None:
        assert category_of(block(20, 150)) is Category.ACTIVATION
        assert category_of(block(20)) is Category.ACTIVATION

    def test_forward_memory_that_is_gone_before_backward_is_temporary(self) -> None:
        assert category_of(block(20, 80)) is Category.TEMPORARY

    def test_memory_of_the_backward_pass_is_a_detail_of_it(self) -> None:
        assert category_of(block(130, 170)) is Category.AUTOGRAD_DETAIL

    def test_backward_memory_that_the_optimizer_finds_is_a_gradient(self) -> None:
        assert category_of(block(130, 250)) is Category.GRADIENT

    def test_memory_of_the_optimizer_is_state_if_it_stays(self) -> None:
        assert category_of(block(220)) is Category.OPTIMIZER_STATE
        assert category_of(block(220, 280)) is Category.TEMPORARY

    def test_optimizer_state_stays_state_when_the_next_backward_finds_it(self) -> None:
        next_backward = Call("MmBackward0", 400, 500, flags=SliceFlags.BACKWARD)
        assert category_of(block(220), calls=[*STEP, next_backward]) is Category.OPTIMIZER_STATE

    def test_memory_that_was_there_before_is_unknown(self) -> None:
        assert category_of([Event(150, -64)]) is Category.UNKNOWN

    @pytest.mark.parametrize("owner", MemoryOwner)
    def test_what_the_program_says_comes_first(self, owner: MemoryOwner) -> None:
        values = [Said(140, 0x1000, owner)]
        for events in (block(20, 150), block(130, 170), [Event(150, -64)]):
            assert category_of(events, values).name == owner.name

    def test_of_two_statements_the_more_lasting_one_holds(self) -> None:
        values = [Said(30, 0x1000, MemoryOwner.INPUT), Said(40, 0x1000, MemoryOwner.PARAMETER)]
        assert category_of(block(20), values) is Category.PARAMETER
        assert category_of(block(20), values[::-1]) is Category.PARAMETER

    def test_a_statement_is_about_the_block_of_its_time(self) -> None:
        events = [*block(20, 40), *block(50, 80)]  # one address, used twice
        values = [Said(60, 0x1000, MemoryOwner.INPUT)]
        timeline = memory_timeline(trace_with_memory(STEP, events, values))
        assert timeline.category.tolist() == [Category.TEMPORARY, Category.INPUT]

    def test_a_thread_that_has_no_backward_pass_makes_no_activations(self) -> None:
        backward = Call("MmBackward0", 110, 190, flags=SliceFlags.BACKWARD)
        trace = trace_with_memory(
            [FORWARD, Call("aten::stack", 10, 90, track=1), backward],
            [Event(20, 64, 1), Event(20, 64, 2, track=1)],
        )
        trace.slices.forward_thread[-1] = trace.tracks[0].logical_id
        assert memory_timeline(trace).category.tolist() == [Category.ACTIVATION, Category.TEMPORARY]

    def test_in_foreign_traces_the_engine_shows_the_backward_pass(self) -> None:
        engine = Call("autograd::engine::evaluate_function: MmBackward0", 110, 190)
        calls = [FORWARD, engine, IN_BACKWARD, OPTIMIZER]
        assert category_of(block(130, 170), calls=calls) is Category.AUTOGRAD_DETAIL
        assert category_of(block(20, 150), calls=calls) is Category.ACTIVATION


class TestBlocks:
    def blocks(
        self, events: list[Event], statements: list[Said] | None = None
    ) -> list[tuple[Any, ...]]:
        timeline = memory_timeline(trace_with_memory(STEP, events, statements or []))
        return timeline.blocks_to_polars().select("bytes", "start_ns", "end_ns").rows()

    def test_a_block_lives_until_it_is_freed(self) -> None:
        assert self.blocks([*block(1, 3, 1), *block(2, None, 2)]) == [
            (64, 1_000, 3_000),
            (64, 2_000, None),
        ]

    def test_a_block_that_was_there_before_has_no_start(self) -> None:
        assert self.blocks([Event(5, -64)]) == [(64, None, 5_000)]

    def test_an_allocation_at_a_living_address_ends_what_was_there(self) -> None:
        assert self.blocks([Event(1, 8), Event(5, 16), Event(9, -16)]) == [
            (8, 1_000, 5_000),
            (16, 5_000, 9_000),
        ]

    def test_a_second_release_ends_what_may_have_begun_at_the_first(self) -> None:
        assert self.blocks([Event(1, 8), Event(5, -8), Event(9, -16)]) == [
            (8, 1_000, 5_000),
            (16, 5_000, 9_000),
        ]

    def test_what_only_the_program_speaks_of_was_always_there(self) -> None:
        values = [
            Said(50, 0x9000, MemoryOwner.PARAMETER, 4096),
            Said(60, 0x9000, MemoryOwner.INPUT, 4096),
        ]
        assert self.blocks(block(1), values) == [(64, 1_000, None), (4096, None, None)]

    def test_it_ends_where_its_address_is_given_to_another(self) -> None:
        values = [Said(5, 0x1000, MemoryOwner.GRADIENT, 4096)]
        assert self.blocks(block(20, 30), values) == [(4096, None, 20_000), (64, 20_000, 30_000)]

    def test_a_statement_between_two_blocks_is_about_neither(self) -> None:
        values = [Said(25, 0x1000, MemoryOwner.GRADIENT, 4096)]
        assert self.blocks([*block(10, 20), *block(30, 40)], values) == [
            (64, 10_000, 20_000),
            (64, 30_000, 40_000),
        ]

    def test_devices_do_not_mix(self) -> None:
        events = [Event(1, 8), Event(2, 16, device="cuda:0"), Event(3, -8)]
        values = [Said(2, 0x7000, MemoryOwner.PARAMETER, 32, "cuda:0")]
        trace = trace_with_memory(STEP, events, values)
        assert memory_timeline(trace, "cpu").blocks.size.tolist() == [8]
        assert memory_timeline(trace).blocks.size.tolist() == [16, 32]

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 20)), max_size=8),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=8),
    )
    def test_block_at_finds_the_one_that_lives(
        self, spans: list[tuple[int, int, int]], asked: list[tuple[int, int]]
    ) -> None:
        """Hold the vectorised search against a loop; one address has one block at a time."""
        blocks: list[tuple[int, int, int]] = []
        for address, one, other in sorted(spans, key=lambda s: (s[0], min(s[1:]))):
            start, end = sorted((one, other))
            if not blocks or blocks[-1][0] != address or blocks[-1][2] < start:
                blocks.append((address, start, end))
        columns = np.array(blocks, np.int64).reshape(-1, 3)
        none = np.zeros(len(blocks), np.int64)
        table = Blocks(columns[:, 0], none, columns[:, 1], columns[:, 2], none)
        questions = np.array(asked, np.int64).reshape(-1, 2)
        expected = [
            next((i for i, (a, s, e) in enumerate(blocks) if a == at and s <= time <= e), NO_BLOCK)
            for at, time in asked
        ]
        assert block_at(table, questions[:, 0], questions[:, 1]).tolist() == expected


class TestTable:
    def test_a_row_a_change_and_a_column_a_category(self) -> None:
        values = [Said(50, 0x9000, MemoryOwner.PARAMETER, 1000)]
        trace = trace_with_memory(STEP, [*block(20, 80, 1), *block(30, 150, 2)], values)
        table = memory_timeline(trace).to_polars()
        assert table.select("time_ns", "parameter", "temporary", "activation", "total").rows() == [
            (20_000, 1000, 0, 0, 1000),
            (20_000, 1000, 64, 0, 1064),
            (30_000, 1000, 64, 64, 1128),
            (80_000, 1000, 0, 64, 1064),
            (150_000, 1000, 0, 0, 1000),
        ]

    def test_the_peak_and_who_asked_for_the_last_of_it(self) -> None:
        trace = trace_with_memory(STEP, [*block(20, 150, 1), *block(130, 140, 2)])
        peak = memory_timeline(trace).peak()
        assert (peak.bytes, peak.time_ns) == (128, 130_000)
        assert trace.name_of(peak.slice) == "aten::mm"

    def test_blocks_say_where_they_were_allocated(self) -> None:
        trace = trace_with_memory(STEP, [*block(220, None, 1), *block(1, None, 2)])
        table = memory_timeline(trace).blocks_to_polars()
        assert table["allocated_in"].to_list() == ["Optimizer.step#Adam.step", ""]
        assert table["category"].to_list() == ["optimizer_state", "activation"]


def load(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


class TestFiles:
    def trace(self) -> Trace:
        values = [Said(50, 0x9000, MemoryOwner.PARAMETER, 1000)]
        wall_offset_ns = 1_700_000_000_000_000_000
        return trace_with_memory(STEP, block(20.9, 80), values, wall_offset_ns=wall_offset_ns)

    @pytest.mark.parametrize("name", ["m.json", "m.json.gz", "M.JSON"])
    def test_levels_in_torchs_layout(self, tmp_path: Path, name: str) -> None:
        export_memory_timeline(self.trace(), tmp_path / name)
        times, sizes = load(tmp_path / name)
        assert times == [1_700_000_000_000_020, 1_700_000_000_000_020, 1_700_000_000_000_080]
        assert sizes == [
            [0, 1000, 0, 0, 0, 0, 0, 0, 0],
            [0, 1000, 0, 0, 64, 0, 0, 0, 0],
            [0, 1000, 0, 0, 0, 0, 0, 0, 0],
        ]

    @pytest.mark.parametrize("name", ["m.raw.json", "m.raw.json.gz"])
    def test_raw_events_in_torchs_layout(self, tmp_path: Path, name: str) -> None:
        export_memory_timeline(self.trace(), str(tmp_path / name))
        assert load(tmp_path / name) == [
            [-1, Action.PREEXISTING, 1000, Category.PARAMETER],
            [1_700_000_000_000_020_900, Action.CREATE, 64, Category.TEMPORARY],
            [1_700_000_000_000_080_000, Action.DESTROY, -64, Category.TEMPORARY],
        ]

    @pytest.mark.parametrize("name", ["m.svg", "m", "m.html.gz", "json", "m.gz"])
    def test_an_unknown_suffix_is_refused_with_the_known_ones(
        self, tmp_path: Path, name: str
    ) -> None:
        with pytest.raises(
            ValueError, match=r"\.html, \.json, \.json\.gz or \.raw\.json\.gz"
        ) as result:
            export_memory_timeline(self.trace(), tmp_path / name)
        assert name in str(result.value)
        assert not list(tmp_path.iterdir())

    def test_a_trace_without_memory_says_how_to_get_it(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="profile_memory=True"):
            export_memory_timeline(trace_of_calls(STEP), tmp_path / "m.html")
        assert not list(tmp_path.iterdir())

    def test_a_device_without_memory_is_named_with_those_that_have(self) -> None:
        with pytest.raises(NoMemoryError, match="'cuda:0', only of cpu"):
            memory_timeline(self.trace(), "cuda:0")


class TestTorchProfiler:
    """The same steps in torch's own memory timeline."""

    @pytest.fixture(params=["mlp", "cnn"])
    def both(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Trace, Path]:
        pytest.importorskip("torch")
        from torch.profiler import ProfilerActivity, profile

        from torch_steps import training_step

        step = training_step(request.param)
        gc.collect()  # what an earlier test left would be freed while this one records
        with profile(
            activities=[ProfilerActivity.CPU],
            profile_memory=True,
            record_shapes=True,
            with_stack=True,
        ) as profiler:
            step()
            step()
        profiler.export_chrome_trace(str(tmp_path / "trace.json"))
        for name in ("torch.json", "torch.raw.json.gz"):
            with pytest.warns(FutureWarning, match="deprecated"):
                profiler.export_memory_timeline(str(tmp_path / name), "cpu")
        return read_trace(tmp_path / "trace.json"), tmp_path

    def raw_events(self, both: tuple[Trace, Path]) -> tuple[list[list[int]], list[list[int]]]:
        trace, folder = both
        export_memory_timeline(trace, folder / "ours.raw.json.gz")
        seen = (Action.CREATE, Action.DESTROY)
        return tuple(  # type: ignore[return-value]
            [event for event in load(folder / f"{whose}.raw.json.gz") if event[1] in seen]
            for whose in ("ours", "torch")
        )

    def test_every_block_comes_and_goes_as_in_torch(self, both: tuple[Trace, Path]) -> None:
        ours, theirs = self.raw_events(both)
        assert ours
        assert [event[:3] for event in ours] == [event[:3] for event in theirs]

    def test_categories_are_torchs_where_no_statement_is_needed(
        self, both: tuple[Trace, Path]
    ) -> None:
        ours, theirs = self.raw_events(both)
        pairs = Counter((Category(t[3]), Category(o[3])) for o, t in zip(ours, theirs, strict=True))
        for category in (Category.GRADIENT, Category.AUTOGRAD_DETAIL):
            of_torchs = {ours for theirs, ours in pairs if theirs is category}
            assert of_torchs == {category}, pairs
        # Torch counts as activation what forward made; we, what it made for backward.
        of_torchs = {ours for theirs, ours in pairs if theirs is Category.ACTIVATION}
        assert of_torchs <= {Category.ACTIVATION, Category.TEMPORARY}, pairs
        assert (Category.ACTIVATION, Category.ACTIVATION) in pairs

    def test_totals_are_torchs_above_what_was_there_before(self, both: tuple[Trace, Path]) -> None:
        trace, folder = both
        export_memory_timeline(trace, folder / "ours.json")
        (times, total), (torch_times, torch_total) = (
            (np.array(times), np.array(sizes).sum(axis=1))
            for times, sizes in map(load, (folder / "ours.json", folder / "torch.json"))
        )
        # Torch rounds some times up to the next µs, so rows with one just behind them may differ.
        alone = np.flatnonzero(np.diff(torch_times, append=np.iinfo(np.int64).max) > 1)
        at = np.searchsorted(times, torch_times[alone], side="right") - 1
        assert len(alone) > 50
        assert (total[at] == torch_total[alone] - torch_total[0]).all()


def test_the_ends_of_time_are_no_times() -> None:
    """A block that was always there, and stays, does not overflow any column."""
    values = [Said(50, 0x9000, MemoryOwner.PARAMETER, 1000)]
    timeline = memory_timeline(trace_with_memory(STEP, block(20), values))
    assert {int(t) for t in timeline.blocks.start_ns} == {ALWAYS, 20_000}
    assert {int(t) for t in timeline.blocks.end_ns} == {NEVER}
    assert timeline.events().action.tolist() == [Action.PREEXISTING, Action.CREATE]
