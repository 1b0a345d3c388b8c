"""What is said of a job: the late rank and why, and which files were left out."""

from __future__ import annotations

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stepscope
from made_job import Plan, times_of, trace_of
from report_page import address
from stepscope import job as jobs
from stepscope.cli import main
from stepscope.errors import StepscopeError, TraceReadError
from stepscope.formats import export_trace
from stepscope.job import executors
from stepscope.job.flight_recorder import read_dump, stuck_in_dumps
from stepscope.job.model import job_of
from stepscope.job.summary import reduced
from stepscope.report.job import export_job_html

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from report_page import Reports

pytest_plugins = ["report_page"]


def summaries(plan: Plan) -> list[Any]:
    times = times_of(plan)
    return [reduced(trace_of(times, rank), f"rank-{rank}") for rank in range(plan.ranks)]


def answered(plan: Plan) -> jobs.JobAnswer:
    return jobs.job_answer(job_of("made", summaries(plan)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job of four ranks on disk; rank 2 is late."""
    times = times_of(Plan(ranks=4, steps=6, collectives=5, late_rank=2, late_ns=2_000_000))
    place = tmp_path / "run"
    place.mkdir()
    for rank in range(4):
        trace_of(times, rank).save(place / f"rank-{rank}.stepscope")
    return place


class TestStragglers:
    def test_a_rank_that_is_always_late_is_named_with_the_reason(self) -> None:
        answer = answered(Plan(late_rank=3, late_ns=2_000_000))
        worst = answer.findings[0]
        assert worst.evidence["rank"] == 3
        assert worst.evidence["persistent"]
        assert worst.evidence["reason"] == "extra-operators"
        assert answer.verdict.startswith("Rank 3 is late in 20 of 20 steps: extra operators")
        assert worst.saves_ns == pytest.approx(2_000_000, rel=0.05)

    @pytest.mark.parametrize("name", ["aten::empty", "aten::resize_"])
    def test_a_rank_that_allocates_more_is(self, name: str) -> None:
        answer = answered(Plan(late_rank=3, late_ns=2_000_000, late_name=name))
        assert answer.findings[0].evidence["reason"] == "memory"
        assert "allocating memory" in answer.verdict
        assert f"most of all {name}, 1.0 calls a step, the others 0.0" in answer.findings[0].text

    def test_what_a_rank_waits_for_is_no_work_of_its_own(self) -> None:
        for summary in summaries(Plan(ranks=2, steps=4)):
            assert summary.work.operators.names == ("aten::mm", "Optimizer.step#SGD")

    def test_a_rank_that_is_late_every_tenth_step_is(self) -> None:
        answer = answered(Plan(late_rank=1, late_ns=5_000_000, late_every=10, steps=40))
        worst = answer.findings[0]
        assert worst.evidence["rank"] == 1
        assert not worst.evidence["persistent"]
        assert worst.evidence["steps"] == [10, 20, 30]
        assert "every 10th step" in answer.verdict

    @pytest.mark.parametrize("seed", range(6))
    def test_none_is_named_where_none_is(self, seed: int) -> None:
        answer = answered(Plan(ranks=6, jitter_ns=60_000, seed=seed, transfer_ns=10_000))
        assert not [item for item in answer.findings if item.id == "straggler"]

    def test_a_late_host_is_named(self) -> None:
        plan = Plan(ranks=8, hosts=4, steps=10, late_rank=2, late_count=2, late_ns=2_000_000)
        answer = answered(plan).findings
        assert answer[0].id == "slow-host"
        assert "host1" in answer[0].title


class TestLeftOut:
    def test_bad_ranks_are_named_and_the_rest_is_answered(self, folder: Path) -> None:
        other = trace_of(times_of(Plan(ranks=4, seed=7)), 3)
        other.save(folder / "rank-3-2.stepscope")  # of another run
        shutil.copytree(folder / "rank-1.stepscope", folder / "copy-of-1.stepscope")  # twice
        shutil.rmtree(folder / "rank-0.stepscope")  # missing
        (folder / "rank-3.stepscope" / "slices.arrow").write_bytes(b"ARROW1")  # damaged
        job = stepscope.open_job(folder)
        assert job.number.tolist() == [1, 2]
        assert job.missing == (0, 3)
        reasons = {Path(item.path).name: item.reason for item in job.left_out}
        assert "another run" in reasons["rank-3-2.stepscope"]
        assert "is another trace of rank 1" in {**reasons, "": ""}.get(
            "rank-1.stepscope", reasons.get("copy-of-1.stepscope", "")
        )
        assert "truncated or damaged" in reasons["rank-3.stepscope"]
        assert jobs.job_answer(job).findings[0].evidence["rank"] == 2

    def test_a_truncated_file_is_left_out(self, folder: Path) -> None:
        trace = stepscope.read_trace(folder / "rank-3.stepscope")
        shutil.rmtree(folder / "rank-3.stepscope")
        export_trace(trace, folder / "rank-3.json")
        text = (folder / "rank-3.json").read_bytes()
        (folder / "rank-3.json").write_bytes(text[: len(text) // 2])
        job = stepscope.open_job(folder)
        assert job.missing == (3,)
        assert [item.rank for item in job.left_out] == [3]
        assert "ends early" in job.left_out[0].reason

    def test_what_is_no_job_is_an_error_with_a_way_out(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(StepscopeError, match="does not exist"):
            stepscope.open_job(tmp_path / "nowhere")
        with pytest.raises(StepscopeError, match="name the folder that holds all ranks"):
            stepscope.open_job(folder / "rank-0.stepscope")
        (tmp_path / "empty").mkdir()
        with pytest.raises(StepscopeError, match="holds no traces"):
            stepscope.open_job(tmp_path / "empty")
        with pytest.raises(StepscopeError, match="has no map"):
            stepscope.open_job(folder, executor=3)


class LikeDask:
    """Has Dask's interface: map returns futures, which it gathers."""

    def map(self, function: Callable[[str], Any], items: Sequence[str], **_: Any) -> list[Any]:
        return [(function, item) for item in items]

    def gather(self, futures: list[Any]) -> list[Any]:
        return [function(item) for function, item in futures]


class LikeRay:
    """Has Ray's interface: remote makes tasks, get waits for one."""

    def remote(self, function: Callable[[str], Any]) -> Any:
        class Task:
            @staticmethod
            def remote(item: str) -> Any:
                return lambda: pickle.loads(pickle.dumps(function(item)))

        return Task

    def get(self, future: Callable[[], Any]) -> Any:
        return future()

    def wait(self) -> None:
        raise AssertionError("not needed")


def test_every_executor_gives_the_same_figures(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = jobs.job_answer(stepscope.open_job(folder)).to_json()
    for executor in (LikeDask(), LikeRay()):
        assert jobs.job_answer(stepscope.open_job(folder, executor=executor)).to_json() == here
    with ThreadPoolExecutor(2) as pool:
        assert jobs.job_answer(stepscope.open_job(folder, executor=pool)).to_json() == here
    monkeypatch.setattr(executors, "SMALL_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    seen: list[tuple[int, int]] = []
    job = stepscope.open_job(folder, progress=lambda done, every: seen.append((done, every)))
    assert jobs.job_answer(job).to_json() == here
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_rank_that_never_arrives_is_named() -> None:
    ranks = summaries(Plan(ranks=3, steps=4, collectives=5))
    last = len(ranks[0].kind) - 1
    for rank in ranks[:2]:
        rank.is_open[last] = True
        rank.end_ns += 10_000_000_000
        rank.done_ns[last] = rank.end_ns
    stuck = ranks[2]
    stuck.end_ns += 10_000_000_000
    for name in ("kind", "seq", "arrived_ns", "done_ns", "waited_ns", "step", "is_open"):
        setattr(stuck, name, getattr(stuck, name)[:last])
    answer = jobs.job_answer(job_of("made", ranks))
    assert answer.findings[0].id == "hang"
    assert answer.verdict == f"Rank 2 never arrived at all_reduce {last} of group 0 (0,1,2)."
    assert f"rank 2 reached all_reduce {last - 1}" in answer.findings[0].text


class TestFlightRecorder:
    def entry(self, number: int, state: str) -> dict[str, Any]:
        frame = {"filename": "/home/me/train.py", "name": "train", "line": 7}
        return {
            "process_group": ("0", "default_pg"),
            "collective_seq_id": number,
            "profiling_name": "nccl:all_reduce",
            "state": state,
            "is_p2p": False,
            "frames": [{"filename": "/x/torch/distributed.py", "name": "all_reduce"}, frame],
        }

    def test_the_rank_that_others_wait_for_is_found(self, tmp_path: Path) -> None:
        for rank, numbers in enumerate(([1, 2], [1, 2], [1])):
            entries = [self.entry(n, "completed" if n == 1 else "started") for n in numbers]
            values = {
                "version": "2.9",
                "entries": entries,
                "pg_config": {"0": {"ranks": "[0, 1, 2]"}},
            }
            (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(values))
        dumps = [read_dump(path) for path in sorted(tmp_path.iterdir())]
        (stuck,) = stuck_in_dumps(dumps)
        assert (stuck.name, stuck.number) == ("all_reduce", 2)
        assert (stuck.waiting, stuck.never_arrived) == ((0, 1), (2,))
        assert stuck.place == "train (train.py:7)"

    def test_a_dump_cannot_run_code(self, tmp_path: Path) -> None:
        class Bad:
            def __reduce__(self) -> Any:
                return Path.touch, (tmp_path / "owned",)

        (tmp_path / "trace_0").write_bytes(pickle.dumps({"entries": [Bad()]}))
        with pytest.raises(TraceReadError, match="which numbers, texts and lists do not need"):
            read_dump(tmp_path / "trace_0")
        assert not (tmp_path / "owned").exists()


class TestCommandLine:
    def test_the_first_line_names_the_late_rank(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["summary", str(folder)]) == 0
        output = capsys.readouterr().out
        assert output.splitlines()[0].startswith(f"{folder}: Rank 2 is late in 6 of 6 steps")
        assert "aligned by the ends of 30 collectives" in output
        assert main(["summary", str(folder), "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        assert values["findings"][0]["evidence"]["rank"] == 2
        assert values["ranks"][0]["rank"] == 2
        assert main(["summary", str(folder), "--memory"]) == 2
        assert "name one of the traces in it" in capsys.readouterr().err

    def test_the_report_links_to_those_of_ranks(self, folder: Path) -> None:
        output = folder.parent / "job.html"
        assert main(["report", str(folder), "-o", str(output), "--ranks", "1"]) == 0
        assert output.exists()
        assert [path.name for path in (folder.parent / "job-ranks").iterdir()] == ["rank-2.html"]


def test_the_page_shows_ranks_collectives_and_two_ranks(reports: Reports, tmp_path: Path) -> None:
    plan = Plan(ranks=40, steps=6, collectives=5, late_rank=7, late_ns=2_000_000)
    times = times_of(plan)
    traces = {rank: trace_of(times, rank) for rank in range(plan.ranks)}
    ranks = [reduced(trace, f"rank-{rank}") for rank, trace in traces.items()]
    answer = jobs.job_answer(job_of("made", ranks))
    path = tmp_path / "job.html"
    links = {7: "job-ranks/rank-7.html"}
    export_job_html(answer, path, links=links, traces={rank: traces[rank] for rank in (7, 3)})
    page = reports.open(path)
    assert page.locator("h1").text_content().startswith("Rank 7 is late in 6 of 6 steps")
    assert page.locator(".rank-own a").get_attribute("href") == links[7]
    assert "rank 7 was the last" in page.locator("main").inner_text()
    heat = page.locator("canvas.heat")
    heat.click(position={"x": 300, "y": 100})
    assert "step=" in address(page)
    assert "Rank" in page.locator(".rank-detail").inner_text()
