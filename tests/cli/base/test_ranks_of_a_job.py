"""`stepscope run` of a job: a trace for each rank in one folder, and nothing else is a rank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from command_line import script, stepscope_run
from stepscope.cli.base.command import Parser
from stepscope.cli.base.rank_folder import check_folder, ranks_in, run_folder
from stepscope.cli.verbs.run import Run, output_of
from stepscope.errors import StepscopeError
from stepscope.trace.model import Trace

if TYPE_CHECKING:
    from pathlib import Path

TWO_RANKS = """
import multiprocessing, os, socket, sys, threading
import torch, torch.distributed as dist
from torch.utils.data import DataLoader

torch.set_num_threads(1)

def work(rank, port):
    threading.current_thread().name = "rank"
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(7, 5))
    for batch in DataLoader(torch.ones(4, 7), batch_size=2, num_workers=1):
        model(batch).sum().backward()
    tensor = torch.ones(3, dtype=torch.int64)
    later = dist.all_reduce(tensor, async_op=True)
    torch.ones(10).sum()
    later.wait()
    alone = dist.new_group([0])
    if rank == 0:
        dist.broadcast(tensor, 0, group=alone)
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    gathered = [torch.zeros(2) for _ in range(2)]
    dist.all_gather(gathered, torch.ones(2))
    dist.destroy_process_group()
    if rank == 1:
        raise ValueError("the second rank fails")

if __name__ == "__main__":
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=work, args=(rank, port)) for rank in range(2)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    print([each.exitcode for each in ranks], [name for name in os.environ if "STEPSC" in name])
    sys.exit(3)
"""


def collectives(trace: Trace) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and arguments of all slices that belong to a collective, by start."""
    rows = [trace.slices.args.of_row(row, trace.strings) for row in range(len(trace))]
    names = list(trace.names())
    return [(names[row], pairs) for row, pairs in enumerate(rows) if "Collective name" in pairs]


@pytest.mark.slow
def test_processes_that_make_a_process_group_are_ranks_of_one_job(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, TWO_RANKS)
    done = stepscope_run("-o", "job.stepscope", "program.py", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "[0, 1] ['STEPSCOPE_RUN']\n"
    assert done.stderr.count("ValueError: the second rank fails") == 1
    assert "ranks     2 on 1 host" in done.stderr
    assert "saved     job.stepscope" in done.stderr
    folder = tmp_path / "job.stepscope"
    assert sorted(path.name for path in folder.iterdir()) == [
        "rank-0.stepscope",
        "rank-1.stepscope",
    ]
    ranks = [Trace.load(folder / f"rank-{rank}.stepscope") for rank in range(2)]
    _check_description(ranks)
    _check_collectives(ranks)


def _check_description(ranks: list[Trace]) -> None:
    assert [(trace.info.rank, trace.info.world_size) for trace in ranks] == [(0, 2), (1, 2)]
    values = [trace.info.user["distributedInfo"] for trace in ranks]
    assert values[0]["run_id"] == values[1]["run_id"]
    groups = [{item["pg_name"]: item["ranks"] for item in info["pg_config"]} for info in values]
    assert groups[0]["0"] == groups[1]["0"] == [0, 1]
    assert [0] in groups[0].values()
    assert len(groups[1]) == 1


def _check_collectives(ranks: list[Trace]) -> None:
    values = [collectives(trace) for trace in ranks]
    expected = [
        {
            (pairs["Seq"], pairs["Collective name"], pairs.get("In msg nelems"), pairs.get("dtype"))
            for _, pairs in entry
            if pairs["Process Group Name"] == "0" and "Dst Rank" not in pairs
        }
        for entry in values
    ]
    assert expected[0] == expected[1]
    assert {(name, count, dtype) for _, name, count, dtype in expected[0]} >= {
        ("allreduce", 40, "Float"),  # DDP's only bucket, which C++ reduces
        ("allreduce", 3, "Long"),
        ("allgather", 2, "Float"),
    }
    assert len({number for number, *_ in expected[0]}) == len(expected[0]) > 5
    for trace, item in zip(ranks, values, strict=True):
        calls = [name for name, _ in item if name.startswith("c10d::")]
        works = [name for name, _ in item if name.startswith("gloo:")]
        assert len(calls) == len(works) > 5
        assert {pairs["Rank"] for _, pairs in item} == {trace.info.rank}
        assert all(json.loads(pairs["Process Group Ranks"]) for _, pairs in item)
        pair = [pairs for name, pairs in item if name.startswith(("c10d::send", "c10d::recv"))]
        assert [(pairs["Src Rank"], pairs["Dst Rank"]) for pairs in pair] == [(0, 1)]
        buckets = {pairs.get("Module") for _, pairs in item if pairs.get("In msg nelems") == 40}
        assert buckets == {None} or "" not in buckets


STARTS_RANKS = """
import os, subprocess, sys
def start(rank, *words):
    env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"}
    return subprocess.Popen([sys.executable, "rank.py", *words], env=env)
ranks = [start(rank) for rank in range(2)]
print([each.wait() for each in ranks], start(1, "helper").wait())
"""
A_RANK = """
import os, subprocess, sys
if "helper" in sys.argv:
    sys.exit(0)
subprocess.run([sys.executable, "-c", "pass"], check=True)
sys.exit(int(os.environ["RANK"]))
"""


def test_programs_that_a_launcher_starts_are_ranks_once(tmp_path: Path) -> None:
    script(tmp_path, STARTS_RANKS)
    script(tmp_path, A_RANK, "rank.py")
    script(tmp_path, "print('their own is run')", "sitecustomize.py")
    done = stepscope_run("--no-summary", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "[0, 1] 0"
    (folder,) = (path for path in tmp_path.glob("program-*") if path.is_dir())
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["rank-0.stepscope", "rank-1.stepscope"]
    places = [Trace.load(folder / name).info for name in names]
    assert [(info.rank, info.world_size) for info in places] == [(0, 2), (1, 2)]


def test_ranks_that_a_launcher_starts_with_us_share_a_folder(tmp_path: Path) -> None:
    script(tmp_path, "")
    for rank in ("0", "1"):
        words = () if rank == "0" else ("--no-summary",)
        done = stepscope_run(*words, "program.py", cwd=tmp_path, RANK=rank, WORLD_SIZE="2")
        assert bool(done.stderr) is (rank == "0")  # one of them speaks
    (folder,) = tmp_path.glob("program-*")
    assert sorted(path.name for path in folder.iterdir()) == [
        "rank-0.stepscope",
        "rank-1.stepscope",
    ]


def test_without_a_suffix_the_output_is_ours(tmp_path: Path) -> None:
    parser = Parser()
    Run().add_arguments(parser)
    args = parser.parse_args(["-o", str(tmp_path / "job"), "program.py"])
    assert output_of(args, "program") == tmp_path / "job.stepscope"
    (tmp_path / "job" / "rank-0.stepscope").mkdir(parents=True)
    with pytest.raises(StepscopeError, match="job exists; add --force to replace it"):
        output_of(args, "program")


def test_a_rank_is_not_replaced_unasked(tmp_path: Path) -> None:
    assert run_folder(tmp_path / "run.json") == (tmp_path / "run", ".json")
    assert run_folder(tmp_path / "run") == (tmp_path / "run", ".stepscope")
    folder = tmp_path / "run.stepscope"
    assert run_folder(folder) == (folder, ".stepscope")
    check_folder(folder, 1, force=False)
    (folder / "rank-1.stepscope").mkdir(parents=True)
    check_folder(folder, 0, force=False)
    check_folder(folder, 1, force=True)
    with pytest.raises(StepscopeError, match="has a trace of rank 1 already; add --force"):
        check_folder(folder, 1, force=False)
    with pytest.raises(StepscopeError, match="does not exist; create it"):
        check_folder(tmp_path / "nowhere" / "run", 1, force=False)
    assert ranks_in(folder) == {1: folder / "rank-1.stepscope"}
    assert ranks_in(tmp_path / "nowhere") == {}
