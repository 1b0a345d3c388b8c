"""Whether a recovered recording of a device has the rows of one that its process handed over.

Run it with the python3 of a machine with an NVIDIA GPU. One program is recorded twice with each
option of devices: by ``profile()`` in the program, and by ``stepscope run``, which reads the stream
of the program after its end. Rows are compared by what does not change from run to run; of readings
over time, how many there are of each second. It exits with 1 where rows differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.formats import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.trace.model import Trace

OPTIONS: Mapping[str, tuple[list[str], dict[str, Any]]] = {
    "work and graphs": ([], {}),
    "waits": (["--device-records", "sync"], {"device_records": "sync"}),
    "all records": (["--device-records", "all"], {"device_records": "all"}),
    "power": (["--power"], {"power": True}),
    "counters": (["--counters"], {"counters": True}),
    "all": (
        ["--device-records", "all", "--power", "--counters"],
        {"device_records": "all", "power": True, "counters": True},
    ),
}
WORK = "measured"
SECONDS = 2.0
MOST_APART = 0.2  # of the number of readings a second
DEVICE_CATEGORIES = {
    *("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"),
    *("cuda_sync", "cuda_event", "cuda_memory", "cuda_graph_node"),
}
# Numbers that CUDA gives out as it likes.
OF_ONE_RUN = {
    *("correlation", "context", "address", "event", "captured node", "graph id", "graph node id"),
    *("wait_on_cuda_event_id", "wait_on_cuda_event_record_corr_id", "Ev Idx", "External id"),
}
SHOWN = 8  # differing rows of each kind

Row = tuple[str, ...]


def program() -> None:
    """Use the device in all ways that are recorded."""
    import time

    import torch

    import stepscope

    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()).cuda()
    x, other = torch.randn(64, 512, device="cuda"), torch.cuda.Stream()
    with torch.inference_mode():
        model(x)
        torch.cuda.synchronize()
        with stepscope.record_function(WORK):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                model(x)
            for _ in range(5):
                graph.replay()
            event = torch.cuda.Event()
            event.record()
            other.wait_event(event)
            with torch.cuda.stream(other):
                (x @ x.T).sum()
            blocks = torch.empty(64 << 20, dtype=torch.uint8, device="cuda").zero_()
            blocks[:1024].cpu()
            torch.cuda.synchronize()
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            model(x)
        torch.cuda.synchronize()


def profiled(path: str, options: dict[str, Any]) -> None:
    """Record the program in its own process."""
    import torch

    import stepscope

    torch.cuda.init()
    with stepscope.profile(**options) as profiler:
        program()
    profiler.trace.save(path)


def recorded(folder: Path, flags: list[str], options: dict[str, Any]) -> tuple[Trace, Trace]:
    """Return the trace of ``profile()``, and that of ``stepscope run``."""
    ours, theirs = folder / "profiled.stepscope", folder / "run.stepscope"
    own = [sys.executable, __file__]
    subprocess.run([*own, "profiled", str(ours), json.dumps(options)], check=True)
    run = [sys.executable, "-m", "stepscope", "run", "--no-report", "-o", str(theirs), *flags]
    done = subprocess.run([*run, __file__, "program"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    for line in done.stderr.splitlines():
        if "not recorded" in line or "nvml" in line or "counters" in line:
            print(f"    {line.strip()}")
    return read_trace(ours), read_trace(theirs)


def rows_of(trace: Trace) -> Counter[Row]:
    """Return how often each row of the device is in the measured part."""
    names = list(trace.names())
    at = names.index(WORK)
    start_ns = int(trace.slices.start_ns[at])
    end_ns = start_ns + int(trace.slices.duration_ns[at])
    texts, result = trace.strings, Counter[Row]()
    for kind, table, times in (
        ("slice", trace.slices, trace.slices.start_ns),
        ("mark", trace.marks, trace.marks.time_ns),
    ):
        for row, time_ns in enumerate(times.tolist()):
            category = texts[int(table.category[row])]
            if category not in DEVICE_CATEGORIES or not start_ns <= time_ns < end_ns:
                continue
            outcome = table.args.of_row(row, texts)
            remaining = {key: value for key, value in outcome.items() if key not in OF_ONE_RUN}
            lines = "" if kind == "mark" else innermost(trace, row)
            arguments = json.dumps(remaining, sort_keys=True)
            result[kind, category, texts[int(table.name[row])], arguments, lines] += 1
    return result


def innermost(trace: Trace, row: int) -> str:
    """Return the program's own frames of a row, up to the function that both ways run."""
    frames = trace.stacks.frames(int(trace.slices.stack[row]))
    texts = (trace.strings[text] for text in frames)
    own = [text.rpartition("/")[2] for text in texts if Path(__file__).name in text]
    return " < ".join(text for text in own if not text.endswith((": <module>", ": profiled")))


def paces(trace: Trace) -> dict[str, float]:
    """Return how many readings a second there are of each counter of a device."""
    marks, texts = trace.marks, trace.strings
    times: dict[str, list[int]] = {}
    for name, track, time_ns in zip(
        marks.name.tolist(), marks.track.tolist(), marks.time_ns.tolist(), strict=True
    ):
        if trace.tracks[track].thread_name == "counters":
            times.setdefault(texts[name], []).append(time_ns)
    return {
        name: (len(item) - 1) / ((max(item) - min(item)) / 1e9 or 1.0)
        for name, item in times.items()
    }


def differences(ours: Trace, theirs: Trace) -> Iterator[str]:
    """Say what the two traces of one program do not have in common."""
    before, after = rows_of(ours), rows_of(theirs)
    for whose, more in (("profile() only", before - after), ("stepscope run only", after - before)):
        for row, count in more.most_common(SHOWN):
            yield f"{whose}, {count} x {' | '.join(filter(None, row))}"
        if len(more) > SHOWN:
            yield f"{whose}: {len(more) - SHOWN} more kinds of rows"
    if ours.devices() != theirs.devices():
        yield f"the devices: {ours.devices()} and {theirs.devices()}"
    one, other = paces(ours), paces(theirs)
    for name in sorted(one.keys() | other.keys()):
        a, b = one.get(name, 0.0), other.get(name, 0.0)
        if abs(a - b) > MOST_APART * max(a, b):
            yield f"{name}: {a:.1f} and {b:.1f} readings a second"
    for source in ("cuda", "nvml", "counters"):
        says = [trace.info.sources.get(source, "") for trace in (ours, theirs)]
        if bool(says[0]) != bool(says[1]):
            yield f"source {source}: {says[0]!r} and {says[1]!r}"


def main() -> None:
    differing = 0
    for name, (flags, options) in OPTIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = recorded(Path(folder), flags, options)
        items = list(differences(ours, theirs))
        differing += bool(items)
        kinds = Counter(row[1] for row in rows_of(ours).elements())
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        text = ", ".join(f"{name} {pace:.0f}/s" for name, pace in paces(ours).items())
        print(f"{name}: {'MISSED' if items else 'holds'} ({counts}{'; ' if text else ''}{text})")
        for line in items:
            print(f"    {line}")
    sys.exit(bool(differing))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["program"]:
            program()
        case ["profiled", path, options]:
            profiled(path, json.loads(options))
        case _:
            main()
