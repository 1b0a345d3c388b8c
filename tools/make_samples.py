"""Record and make the sample traces of tests/samples, which the tests read.

    python tools/make_samples.py cpu paddle made
    python3 tools/make_samples.py h200 --to FOLDER    # on a machine with an H200

``cpu`` records with torch.profiler, also eight gloo ranks, and with Stepscope; ``h200`` needs
torch and transformers alone. ``paddle`` needs an interpreter with Paddle: PADDLE_PYTHON, or
.venv-paddle/bin/python. ``made`` simulates devices that are not at hand.

Programs, models and data are our own. Paths and host names of the machine are taken out.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "samples"
RANKS = 8


# --- files


def write_sample(path: Path, text: str) -> None:
    """Write a compressed file that is the same whenever its text is the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(without_places(text).encode(), 9, mtime=0))
    print(f"{path.name}: {path.stat().st_size:,} bytes", file=sys.stderr)


def without_places(text: str) -> str:
    """Take out the name of this machine, and where it keeps its files."""
    text = re.sub(r'"host_name": "[^"]*"', '"host_name": "sample-host"', text)
    text = text.replace(f"{ROOT}/", "")
    text = re.sub(r"(/[^/\"\s]+)+/(site|dist)-packages/", "", text)
    text = re.sub(r"(/[^/\"\s]+)+/python3\.\d+/", "", text)
    for path in sorted(set(re.findall(r'"(/[^"]*\.py[^"]*)"', text))):
        print(f"an absolute path is left in the sample: {path}", file=sys.stderr)
    return text


def export(profiler: Any, path: Path) -> None:
    """Write what torch.profiler or Stepscope recorded."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        profiler.export_chrome_trace("trace.json")
        text = Path("trace.json").read_text(encoding="utf-8")
    write_sample(path, text)


# --- cpu


def images_to_classify(size: int, count: int) -> Any:
    """Return a dataset that makes each image when it is asked for it."""
    import torch

    class Images(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return count

        def __getitem__(self, index: int) -> Any:
            generator = torch.Generator().manual_seed(index)
            large = torch.randn(3, 4 * size, 4 * size, generator=generator)
            image = torch.nn.functional.avg_pool2d(large, 4)
            return (image - image.mean()) / image.std(), index % 10

    return Images()


def small_network(width: int) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * width, 10),
    )


def train(model: Any, images: Any, batch: int, profiler: Any, *, device: str = "cpu") -> None:
    """Train with a loader without workers, and with an optimizer that works tensor by tensor."""
    import torch

    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    for inputs, labels in torch.utils.data.DataLoader(images, batch_size=batch):
        with torch.profiler.record_function("## forward ##"):
            outputs = model(inputs.to(device))
            loss = torch.nn.functional.cross_entropy(outputs, labels.to(device))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        loss.item()
        profiler.step()


def three_steps() -> Any:
    import torch

    return torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)


def record_cpu(folder: Path) -> None:
    import torch

    import stepscope

    torch.manual_seed(0)
    torch.set_num_threads(2)
    options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with torch.profiler.profile(schedule=three_steps(), with_flops=True, **options) as profiler:
        train(small_network(8), images_to_classify(32, 20), 4, profiler)
    export(profiler, folder / "cpu_training.pt.trace.json.gz")

    schedule = stepscope.schedule(wait=1, warmup=1, active=3, repeat=1)
    with stepscope.profile(schedule=schedule, with_modules=True, **options) as recorded:
        train(small_network(8), images_to_classify(32, 20), 4, recorded)
    export(recorded, folder / "cpu_stepscope.pt.trace.json.gz")

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={RANKS}", __file__, "rank", "--to", str(folder / "eight_ranks")]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def record_rank(folder: Path) -> None:
    """Record one of eight ranks that train together; torchrun starts it."""
    import torch
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.05)
    optimizer = torch.optim.AdamW(parallel.parameters())
    with torch.profiler.profile(schedule=three_steps(), record_shapes=True) as profiler:
        for _ in range(5):
            optimizer.zero_grad()
            loss = parallel(torch.randn(32, 64)).square().mean()
            loss.backward()
            optimizer.step()
            dist.all_reduce(loss.detach())
            profiler.step()
    dist.barrier()
    export(profiler, folder / f"rank{rank}.pt.trace.json.gz")
    dist.destroy_process_group()


# --- h200


def record_device(folder: Path) -> None:
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("h200: torch sees no GPU here; run this on a machine with one")
    failed = []
    for name, record in DEVICE_SAMPLES.items():
        torch.manual_seed(0)
        try:
            export(record(torch), folder / f"{name}.pt.trace.json.gz")
        except Exception:  # the others are worth having: such a machine is not always at hand
            traceback.print_exc()
            failed.append(name)
    if failed:
        raise SystemExit(f"not recorded: {', '.join(failed)}")


def device_training(torch: Any) -> Any:
    """Train in float32 with a loader that the device waits for."""
    options = {"record_shapes": True, "profile_memory": True}
    with torch.profiler.profile(schedule=three_steps(), **options) as profiler:
        train(small_network(64), images_to_classify(128, 160), 32, profiler, device="cuda")
    return profiler


def language_model(torch: Any, device: str = "cuda") -> Any:
    """Call a language model with large batches, and know which module launched what."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import LlamaConfig, LlamaForCausalLM

    is_small = device == "cpu"
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=64 if is_small else 4096,
        intermediate_size=128 if is_small else 11008,
        num_hidden_layers=2,
        num_attention_heads=2 if is_small else 32,
        num_key_value_heads=2 if is_small else 32,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).to(device, torch.bfloat16).eval()
    tokens = torch.randint(0, config.vocab_size, (4, 32 if is_small else 2048), device=device)
    backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    with torch.no_grad(), sdpa_kernel(backends):
        for _ in range(3):
            model(tokens, use_cache=False)
        synchronize(torch, device)
        with torch.profiler.profile(record_shapes=True, with_stack=True) as profiler:
            for _ in range(2):
                model(tokens, use_cache=False)
            synchronize(torch, device)
    return profiler


def synchronize(torch: Any, device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def two_streams(torch: Any) -> Any:
    """Copy beside the products, fill memory, and replay a graph."""
    host = torch.randn(4096, 4096).pin_memory()
    rest, right = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    other, side = torch.cuda.Stream(), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.relu(rest @ right).sum()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        torch.relu(rest @ right).sum()

    def step() -> None:
        with torch.cuda.stream(other):
            batch = host.to("cuda", non_blocking=True)
        product = rest @ right
        with torch.cuda.stream(side):
            torch.tanh(right).mul_(2)
        torch.cuda.current_stream().wait_stream(other)
        (product + batch).sum()
        torch.zeros(1 << 20, device="cuda")
        graph.replay()
        rest[0].cpu()

    step()
    torch.cuda.synchronize()
    with torch.profiler.profile(schedule=three_steps(), profile_memory=True) as profiler:
        for _ in range(5):
            step()
            profiler.step()
    return profiler


DEVICE_SAMPLES: dict[str, Callable[[Any], Any]] = {
    "h200_training": device_training,
    "h200_language_model": language_model,
    "h200_streams": two_streams,
}


# --- paddle


def record_paddle(folder: Path) -> None:
    """Start an interpreter that has Paddle; where this one is named, its files go to ``folder``."""
    python = os.environ.get("PADDLE_PYTHON", str(ROOT / ".venv-paddle" / "bin" / "python"))
    subprocess.run([python, __file__, "with-paddle", "--to", str(folder / "paddle")], check=True)


def record_with_paddle(folder: Path) -> None:
    """Record with paddle.profiler, and keep the summaries that Paddle prints."""
    import paddle
    from paddle import profiler as theirs

    model = paddle.nn.Sequential(paddle.nn.Linear(12, 6), paddle.nn.ReLU(), paddle.nn.Linear(6, 3))
    optimizer = paddle.optimizer.Momentum(parameters=model.parameters())
    profiler = theirs.Profiler(
        targets=[theirs.ProfilerTarget.CPU],
        scheduler=(3, 6),
        on_trace_ready=lambda _: None,
        profile_memory=True,
        record_shapes=True,
    )
    with profiler:
        for number in range(6):
            with theirs.RecordEvent("batch"):
                batch = paddle.full([5, 12], float(number))
            model(batch).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
            profiler.step()
    with tempfile.TemporaryDirectory() as name:
        for suffix in ("json", "pb"):
            profiler.profiler_result.save(f"{name}/trace.{suffix}", suffix)
        content = (Path(name) / "trace.pb").read_bytes()
        text = (Path(name) / "trace.json").read_text(encoding="utf-8")
    write_sample(folder / "training.paddle_trace.json.gz", text)
    (folder / "training.paddle_trace.pb").write_bytes(content)

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        profiler.summary(theirs.SortedKeys.CPUAvg, thread_sep=True, time_unit="us")
    (folder / "summary_of_training.txt").write_text(
        printed.getvalue().removesuffix("\n"), encoding="utf-8"
    )
    (folder / "summary_of_all_views.txt").write_text(summary_of_a_tree(), encoding="utf-8")


def summary_of_a_tree() -> str:
    """Return what Paddle prints of a written-down step on a GPU, in all of its views."""
    from paddle.profiler import SortedKeys
    from paddle.profiler import profiler_statistic as statistic

    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from made_paddle_tree import CPU_USE, as_paddle, one_step

    data = statistic.StatisticData(as_paddle({11: [one_step()]}), CPU_USE)
    text = statistic._build_table(data, sorted_by=SortedKeys.CPUTotal, time_unit="ns")
    return str(text)


# --- made


def make_all(folder: Path) -> None:
    from made_samples import made

    with tempfile.TemporaryDirectory() as name:
        for sample, file in made(Path(name)):
            write_sample(folder / f"{sample}.json.gz", file.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=WHAT)
    parser.add_argument("--to", type=Path, default=SAMPLES, help="the folder for the samples")
    arguments = parser.parse_args()
    for what in arguments.what:
        WHAT[what](arguments.to)


WHAT: dict[str, Callable[[Path], None]] = {
    "cpu": record_cpu,
    "rank": record_rank,
    "h200": record_device,
    "paddle": record_paddle,
    "with-paddle": record_with_paddle,
    "made": make_all,
}

if __name__ == "__main__":
    main()
