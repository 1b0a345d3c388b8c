"""tensorboard_trace_handler: its files, and what the real TensorBoard makes of them."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepscope import profile, record_function, schedule, tensorboard_trace_handler
from stepscope.formats.file_names import file_word

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME = re.compile(r"(?P<worker>.+)\.(?P<time_ns>\d{19})\.pt\.trace\.json(\.gz)?")


def written(folder: Path, **options: Any) -> str:
    """Write one trace and return the name of its file, which is the only one anywhere near."""
    with profile(on_trace_ready=tensorboard_trace_handler(folder, **options)), record_function("a"):
        pass
    (path,) = folder.iterdir()
    return path.name


# ---- files


def test_a_file_is_named_after_worker_and_time(tmp_path: Path) -> None:
    match = FILE_NAME.fullmatch(written(tmp_path, worker_name="worker0"))
    assert match is not None
    assert match["worker"] == "worker0"


@pytest.mark.parametrize("nobody", [None, ""])
def test_a_worker_without_a_name_is_the_host_and_the_process(
    nobody: str | None, tmp_path: Path
) -> None:
    match = FILE_NAME.fullmatch(written(tmp_path, worker_name=nobody))
    assert match is not None
    assert match["worker"] == f"{socket.gethostname()}_{os.getpid()}"


def test_a_compressed_file(tmp_path: Path) -> None:
    name = written(tmp_path, use_gzip=True)
    assert name.endswith(".pt.trace.json.gz")
    trace = json.loads(gzip.decompress((tmp_path / name).read_bytes()))
    assert any(event["name"] == "a" for event in trace["traceEvents"])


def test_the_folder_is_made(tmp_path: Path) -> None:
    assert written(tmp_path / "a" / "b")
    assert written(Path(os.fspath(tmp_path / "c")))


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(RuntimeError, match=r"Can't create directory: .*file"),
        profile(on_trace_ready=tensorboard_trace_handler(tmp_path / "file")),
    ):
        pass


def test_each_cycle_is_a_file(tmp_path: Path) -> None:
    ready = tensorboard_trace_handler(tmp_path, "w")
    with profile(schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=ready) as profiler:
        for _ in range(6):
            profiler.step()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_forked_child_is_another_worker(tmp_path: Path) -> None:
    ready = tensorboard_trace_handler(tmp_path)
    with profile(on_trace_ready=ready) as profiler, record_function("a"):
        pass
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            ready(profiler)
        os._exit(0)
    os.waitpid(child, 0)
    matches = [FILE_NAME.fullmatch(path.name) for path in tmp_path.iterdir()]
    host = socket.gethostname()
    assert {match and match["worker"] for match in matches} == {
        f"{host}_{os.getpid()}",
        f"{host}_{child}",
    }


HOSTILE = [
    "../outside",
    "/etc/passwd",
    "..",
    ".",
    "a/b",
    "a\\b",
    "nul\0byte",
    "line\nbreak",
    "x" * 10_000,
    "🚀" * 3_000,
    "\ud800",
    " spaces ",
    "</script>",
    'quo"te',
    ".hidden",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:20])
def test_a_hostile_worker_stays_in_the_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    file_name = written(folder, worker_name=name)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert FILE_NAME.fullmatch(file_name), file_name
    assert not file_name.startswith(".")


def test_names_that_become_alike_are_told_apart() -> None:
    words = [file_word(name) for name in (*HOSTILE, "a_b", "x" * 10_001, "_", "", "a:b")]
    assert len(set(words)) == len(words)
    assert file_word("host.example_1") == "host.example_1"
    assert file_word("Läufer 1 🚀") == "Läufer 1 🚀"


# ---- the real TensorBoard

NEEDED = ("tensorboard", "torch_tb_profiler", "torch")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_tensorboard = pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} not installed")


class TensorBoard:
    """A TensorBoard of our own on this machine's own network, and its plugin's data."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tensorboard.main", "--logdir", str(folder)),
                *("--host", "127.0.0.1", "--port", "0", "--load_fast", "false"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.address = self._address()
        # It goes on to write; a full pipe would stop it.
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _address(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"http://127\.0\.0\.1:\d+", line):
                return match[0]
        raise AssertionError("TensorBoard did not start:\n" + "".join(self.lines))

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def get(self, page: str, **query: str) -> Any:
        url = f"{self.address}/data/plugin/pytorch_profiler/{page}?{urllib.parse.urlencode(query)}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=60) as answer:
            content = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
        return json.loads(content)

    def page(self, page: str, worker: str, **query: str) -> Any:
        """Return the data of a page for a worker that wrote one file."""
        self.runs()
        (span,) = self.get("spans", run="run", worker=worker)
        return self.get(page, run="run", worker=worker, span=span, **query)

    def runs(self) -> list[str]:
        """Return the runs, once they are loaded."""
        pause = threading.Event()
        for _ in range(600):
            answer = self.get("runs")
            if answer["runs"] and not answer["loading"]:
                runs: list[str] = answer["runs"]
                return runs
            pause.wait(0.1)
        raise AssertionError("TensorBoard loaded no run:\n" + "".join(self.lines))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        self._reader.join(timeout=60)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    """Train two steps in two workers, one with a hostile name, and show them."""
    import torch

    folder = tmp_path_factory.mktemp("log")
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for worker, use_gzip in (("worker0", False), ('../w"</script>', True)):
        with profile(
            schedule=schedule(wait=0, warmup=1, active=2),
            on_trace_ready=tensorboard_trace_handler(folder / "run", worker, use_gzip),
            record_shapes=True,
        ) as profiler:
            for _ in range(3):
                with record_function('a "range" </script> 🚀'):
                    loss = model(torch.ones(4, 8)).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                profiler.step()
    board = TensorBoard(folder)
    try:
        yield board
    finally:
        board.close()


@needs_tensorboard
class TestTheRealTensorBoard:
    def test_it_finds_the_run_and_its_workers(self, board: TensorBoard) -> None:
        assert board.runs() == ["run"]
        assert set(board.get("views", run="run")) >= {"Overview", "Operator", "Trace"}
        workers = board.get("workers", run="run", view="Overview")
        assert sorted(workers) == sorted(["worker0", file_word('../w"</script>')])

    @pytest.mark.parametrize("worker", ["worker0", file_word('../w"</script>')])
    def test_its_overview_has_the_steps(self, board: TensorBoard, worker: str) -> None:
        overview = board.page("overview", worker)
        rows = overview["steps"]["rows"]
        assert [row[0] for row in rows] == ["1", "2"]
        assert all(
            isinstance(value, int | float) for value in rows[0][1:] if not isinstance(value, str)
        )

    def test_its_operators_are_the_ones_that_ran(self, board: TensorBoard) -> None:
        table = board.page("operation/table", "worker0", group_by="Operation")
        calls = {row["name"]: row["calls"] for row in table["data"]}
        assert calls["aten::linear"] == 4  # two layers, two steps
        assert calls["aten::relu"] == 2

    def test_its_trace_is_ours(self, board: TensorBoard) -> None:
        trace = board.page("trace", "worker0")
        names = {event["name"] for event in trace["traceEvents"]}
        assert {"aten::linear", 'a "range" </script> 🚀', "ProfilerStep#1"} <= names
