"""Names that break what is careless: every export stays valid, and gives them back unchanged."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import threading
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import polars
import pytest

from proto_messages import messages
from stepscope import Trace, export_trace, profile, read_trace, record_function
from stepscope.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

torch = pytest.importorskip("torch")

HOSTILE = [
    'quotes " and \' and ` and ""',
    "backslashes \\ \\\\ \\n \\u0041 \\",
    "a\nnew\r\nline\tand\va\ftab",
    "</script><script>alert(1)</script><!-- -->",
    "<b>&amp;</b> ${name} {{name}} %s %(x)d {0}",
    "emoji 🚀👩‍🔬 and 模型 and \u202e right to left",
    "line separators \u2028 \u2029 and \ufeff \uffff \U0010ffff",
    "NUL \0 and \x01 \x1b[31m red \x7f",
    "semicolons; and, commas | and = signs",
    " spaces at both ends ",
    "../../etc/passwd",
    "=HYPERLINK('x')",
    "null",
    "-1",
    "x" * 10_000,
    "🚀" * 10_000,
]
SURROGATE = "lone \ud800 surrogate \udfff"
PRINTED_SURROGATE = "lone \ufffd surrogate \ufffd"  # how metadata keeps it
SHOWN_SURROGATE = "lone ? surrogate ?"  # it has no UTF-8 form, so the recorder keeps a mark of it


@pytest.fixture(scope="module")
def profiler() -> Iterator[profile]:
    """Record every hostile name as everything that the user can name."""

    def in_thread() -> None:
        with record_function("in a thread"):
            torch.ones(1).neg()

    with profile(with_stack=True, profile_memory=True, record_shapes=True) as running:
        for name in [*HOSTILE, SURROGATE]:
            with record_function(name, name):
                torch.ones(4).neg()
        for name in HOSTILE:
            worker = threading.Thread(target=in_thread, name=name)
            worker.start()
            worker.join()
    for name in [*HOSTILE, SURROGATE]:
        running.add_metadata(name, name)
        running.add_metadata_json(f"json {name}", json.dumps({name: [name]}))
    yield running


def test_a_thread_whose_name_is_no_text(tmp_path: Path) -> None:
    def work() -> None:
        with record_function("in the thread"):
            pass

    with profile() as profiler:
        worker = threading.Thread(target=work, name=SURROGATE)
        worker.start()
        worker.join()
    profiler.export_chrome_trace(tmp_path / "trace.json")
    profiler.trace.save(tmp_path / "trace.stepscope")
    json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    for path in (tmp_path / "trace.json", tmp_path / "trace.stepscope"):
        (track,) = read_trace(path).tracks
        assert track.thread_name.startswith("lone ")
        assert track.thread_name.encode("utf-8")


def expected_names() -> set[str]:
    return {*HOSTILE, SHOWN_SURROGATE}


def check(trace: Trace) -> None:
    """Check that all names of ranges, what went with them, and threads are there."""
    assert expected_names() <= set(trace.names())
    texts = {
        trace.slices.args.of_row(row, trace.strings).get("args"): trace.name_of(row)
        for row in range(len(trace))
    }
    assert {name: name for name in expected_names()}.items() <= texts.items()
    threads = {track.thread_name for track in trace.tracks}
    assert set(HOSTILE) <= threads


def check_metadata(user: Any) -> None:
    for name in [*HOSTILE, PRINTED_SURROGATE]:
        assert user[name] == name
        assert user[f"json {name}"] == {name: [name]}


def test_the_trace_itself(profiler: profile) -> None:
    check(profiler.trace)
    check_metadata(profiler.trace.info.user)


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_chrome_traces_are_valid_and_read_back(
    suffix: str, profiler: profile, tmp_path: Path
) -> None:
    path = tmp_path / f"trace.{suffix}"
    profiler.export_chrome_trace(path)
    raw = gzip.decompress(path.read_bytes()) if suffix.endswith("gz") else path.read_bytes()
    parsed = json.loads(raw.decode("utf-8"))  # strict: no raw control characters, valid UTF-8
    assert expected_names() <= {event.get("name") for event in parsed["traceEvents"]}
    check_metadata(parsed)
    back = read_trace(path)
    check(back)
    check_metadata(back.info.user)


def test_a_saved_folder(profiler: profile, tmp_path: Path) -> None:
    path = tmp_path / "trace.stepscope"
    profiler.trace.save(path)
    back = Trace.load(path)
    check(back)
    check_metadata(back.info.user)


def test_chrome_json_of_a_saved_folder_is_the_same(profiler: profile, tmp_path: Path) -> None:
    profiler.trace.save(tmp_path / "trace.stepscope")
    path = tmp_path / "trace.json"  # its name is in the file
    export_trace(profiler.trace, path)
    direct = path.read_bytes()
    export_trace(Trace.load(tmp_path / "trace.stepscope"), path)
    assert path.read_bytes() == direct


def test_every_registered_exporter_writes_something_readable(
    profiler: profile, tmp_path: Path
) -> None:
    for number, exporter in enumerate(item for item in FORMATS if item.writer):
        for suffix in exporter.suffixes:
            path = tmp_path / f"{number}{suffix}"
            export_trace(profiler.trace, path)
            if exporter.title.startswith("Paddle"):  # no place for what goes with a range
                assert expected_names() <= set(read_trace(path).names())
            elif exporter.reader is not None:
                check(read_trace(path))
            elif exporter.title == "Parquet":
                names = polars.read_parquet(path / "slices.parquet")["name"]
                assert expected_names() <= set(names.cast(polars.String))
            elif exporter.title == "pprof":
                raw = gzip.decompress(path.read_bytes())
                assert set(HOSTILE) <= {
                    text.decode() for number, text in messages(raw) if number == 6
                }
            else:
                raw = path.read_bytes()
                text = gzip.decompress(raw) if suffix.endswith(".gz") else raw
                check_text(exporter.title, text.decode("utf-8"))


def check_text(title: str, text: str) -> None:
    """Check that a file which is not read back is valid, and names all ranges."""
    assert text
    if title == "CSV":
        names = {row["name"] for row in csv.DictReader(io.StringIO(text, newline=""))}
        assert expected_names() - {name for name in HOSTILE if "\0" in name} <= names
    elif title == "Firefox Profiler":
        threads = json.loads(text)["threads"]
        named = {th["stringArray"][name] for th in threads for name in th["markers"]["name"]}
        assert expected_names() <= named
        assert set(HOSTILE) <= {thread["name"] for thread in threads}
    elif title == "OpenTelemetry spans":
        (resource,) = json.loads(text)["resourceSpans"]
        assert expected_names() <= {span["name"] for span in resource["scopeSpans"][0]["spans"]}
    elif title == "speedscope":
        assert set(HOSTILE) <= {frame["name"] for frame in json.loads(text)["shared"]["frames"]}


def test_folded_stacks_have_a_stack_and_a_number_a_line(profiler: profile, tmp_path: Path) -> None:
    path = tmp_path / "profile.stacks"
    profiler.export_stacks(path, "self_cpu_time_total")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert lines
    for line in lines:
        stack, _, value = line.rpartition(" ")
        assert stack
        assert int(value) >= 0


def test_frames_with_hostile_function_names(tmp_path: Path) -> None:
    """Code objects may be called anything: those of templates and generated code are."""
    with profile(with_stack=True) as profiler:
        for name in HOSTILE:
            source = "def f(work):\n    return work()"
            scope: dict[str, Any] = {}
            exec(compile(source, name.replace("\0", "0"), "exec"), scope)
            function = scope["f"]
            function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
            function(torch.ones(1).neg)
    path = tmp_path / "profile.stacks"
    profiler.export_stacks(path)
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        stack, _, value = line.rpartition(" ")
        assert stack
        assert value.isdigit()
    profiler.export_chrome_trace(tmp_path / "trace.json")
    json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert sorted(read_trace(tmp_path / "trace.json").names()) == sorted(profiler.trace.names())


class Balance(HTMLParser):
    """Notes the scripts of a page, and where text falls out of them."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "script":
            self.scripts += 1
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self.open.pop()


@pytest.mark.parametrize("suffix", ["html", "json", "json.gz", "raw.json.gz"])
def test_memory_timelines(suffix: str, profiler: profile, tmp_path: Path) -> None:
    path = tmp_path / f"memory.{suffix}"
    profiler.export_memory_timeline(path, device="cpu")
    if suffix == "html":
        page = Balance()
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
        assert page.open == []
        assert "alert(1)</script>" not in path.read_text(encoding="utf-8")
    else:
        raw = path.read_bytes()
        json.loads(gzip.decompress(raw) if suffix.endswith("gz") else raw)


def test_tables_keep_one_line_a_row(profiler: profile) -> None:
    averages = profiler.key_averages()
    assert expected_names() <= {row.key for row in averages}
    text = averages.table(row_limit=-1)
    header, footer = 3, 3  # rule, names, rule; rule, empty, total
    rows = len(averages) + header + footer
    assert rows - 2 <= len(text.rstrip("\n").split("\n")) <= rows
    assert "\0" not in text
    assert "\x1b" not in text


def test_lists_of_events(profiler: profile) -> None:
    events = profiler.events()
    assert expected_names() <= {event.name for event in events}
    again = pickle.loads(pickle.dumps(events))
    assert [event.name for event in again] == [event.name for event in events]


def test_data_frames(profiler: profile) -> None:
    frame = profiler.trace.to_polars()
    assert expected_names() <= set(frame["name"].cast(str).to_list())
    assert expected_names() <= set(frame.to_pandas()["name"].astype(str))


def test_tables_as_csv_and_json(profiler: profile, tmp_path: Path) -> None:
    averages = profiler.key_averages()
    path = tmp_path / "table.csv"
    averages.to_csv(path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert expected_names() <= {value for row in rows for value in row.values()}
    averages.to_json(tmp_path / "table.json")
    written = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert expected_names() <= {value for row in written for value in row.values() if value}


def test_the_command_line_shows_them(profiler: profile, tmp_path: Path) -> None:
    from command_line import python

    path = tmp_path / "trace.stepscope"
    profiler.trace.save(path)
    for verb in ("summary", "info"):
        done = python("-m", "stepscope", verb, str(path), cwd=tmp_path)
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
        assert "\x1b[31m" not in done.stdout
        assert "\0" not in done.stdout


def test_bad_json_is_refused_and_named(profiler: profile) -> None:
    for text in ["{", "NaN", "</script>", '"a\nb"']:
        with pytest.raises(ValueError, match="add_metadata_json"):
            profiler.add_metadata_json("key", text)
    check_metadata(profiler.trace.info.user)


# ---- modules


def test_modules_with_hostile_names(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if "." not in name]
    model = torch.nn.Sequential()
    for name in names:
        model.add_module(name, torch.nn.Linear(1, 1))
    with profile(with_modules=True) as profiler:
        model(torch.ones(1))
    by_name = {name for name in profiler.trace.names() if name in set(names)}
    assert by_name == set(names)
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(path)
    json.loads(path.read_text(encoding="utf-8"))
    assert sorted(read_trace(path).names()) == sorted(profiler.trace.names())
    profiler.trace.save(tmp_path / "trace.stepscope")
    back = Trace.load(tmp_path / "trace.stepscope")
    assert sorted(back.names()) == sorted(profiler.trace.names())


def test_processes_with_hostile_names() -> None:
    import multiprocessing

    with profile(record_workers=True) as profiler:
        for name in HOSTILE[:8]:
            child = multiprocessing.get_context("fork").Process(target=_work, name=name)
            child.start()
            child.join()
    assert {track.process_name for track in profiler.trace.tracks} >= set(HOSTILE[:8])


def _work() -> None:
    with record_function("work"):
        pass
