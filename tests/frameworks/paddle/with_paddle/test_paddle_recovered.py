"""What a program of `stepscope run` leaves of Paddle equals what is collected in its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle_recording import paddle_or_skip

from recovering import memory_of, recovered, rows_of, stopped

if TYPE_CHECKING:
    from pathlib import Path

paddle_or_skip()

_TRAINING = """
import gc
import threading
import paddle
def train():
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 1))
    stepper = paddle.optimizer.Adam(parameters=model.parameters())
    x = paddle.ones([2, 4])
    for _ in range(3):
        with paddle.profiler.RecordEvent("mine"):
            model(x).sum().backward()
        stepper.step()
        stepper.clear_grad()
    del model, stepper
    gc.collect()
train()
thread = threading.Thread(target=train, name="second")
thread.start()
thread.join()
"""


def test_operators_memory_inputs_and_phases_are_all_there(tmp_path: Path) -> None:
    options = {"shapes": True, "memory": True, "phases": True}
    ours = stopped(tmp_path, _TRAINING, **options)
    theirs = recovered(tmp_path, _TRAINING, **options)
    assert rows_of(theirs) == rows_of(ours)
    assert memory_of(theirs) == memory_of(ours)
    names = set(theirs.names())
    assert {"matmul dygraph", "Linear", "backward", "Optimization Step", "mine"} <= names
    assert len(theirs.tracks) == len(ours.tracks) == 2
    assert {track.pid for track in theirs.tracks} == {str(theirs.info.pid)}


def test_what_was_not_asked_for_is_not_there(tmp_path: Path) -> None:
    ours, theirs = stopped(tmp_path, _TRAINING), recovered(tmp_path, _TRAINING)
    assert rows_of(theirs) == rows_of(ours)
    assert len(theirs.memory) == 0


def test_what_the_program_collects_itself_is_in_both(tmp_path: Path) -> None:
    code = _TRAINING + (
        "profiler = paddle.profiler.Profiler(on_trace_ready=lambda _: None)\n"
        "profiler.start()\ntrain()\nprofiler.stop()\ntrain()\n"
    )
    assert rows_of(recovered(tmp_path, code)) == rows_of(stopped(tmp_path, code))


_TWO_RANKS = """
import os, socket, subprocess, sys
_WORK = '''
import paddle
import paddle.distributed as dist
dist.init_parallel_env()
dist.all_reduce(paddle.ones([3]))
gathered = []
dist.all_gather(gathered, paddle.ones([2]))
for _ in range(2):
    dist.barrier()
'''
def free_places(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    places = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return places
first, second, master = free_places(3)
os.environ.pop("STEPSCOPE_RUN", None)  # this rank alone is recorded
os.environ.update(
    PADDLE_TRAINERS_NUM="2", PADDLE_TRAINER_ENDPOINTS=f"{first},{second}",
    PADDLE_MASTER=master, PADDLE_DISTRI_BACKEND="gloo",
)
def told(rank, place):
    return {"PADDLE_TRAINER_ID": rank, "PADDLE_CURRENT_ENDPOINT": place}
other = subprocess.Popen([sys.executable, "-c", _WORK], env={**os.environ, **told("1", second)})
os.environ.update(told("0", first))
exec(_WORK)
assert other.wait() == 0
"""


def test_collectives_have_their_group_and_sizes(tmp_path: Path) -> None:
    ours, theirs = stopped(tmp_path, _TWO_RANKS), recovered(tmp_path, _TWO_RANKS)
    assert rows_of(theirs) == rows_of(ours)
    names = list(theirs.names())
    reduced = theirs.slices.args.of_row(names.index("gloo:all_reduce"), theirs.strings)
    assert reduced["Process Group Ranks"] == "[0, 1]"
    assert (reduced["In msg nelems"], reduced["dtype"], reduced["Rank"]) == (3, "Float", 0)
