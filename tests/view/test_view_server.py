"""The server of `stepscope view`: what it answers, and all that it refuses."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest

from sample_traces import HOSTILE
from stepscope import read_trace
from stepscope.view import library as library_module
from viewing import Viewed, saved, small_trace, viewing, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "the file outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a trace, beside one with a file that nobody may see."""
    saved(tmp_path / "root" / "a.stepscope")
    (tmp_path / "secret.json").write_text(json.dumps({"traceEvents": [], "note": SECRET}))
    written(tmp_path / "secret.json")
    return tmp_path / "root"


@pytest.fixture
def viewed(root: Path) -> Iterator[Viewed]:
    with viewing(root) as viewed:
        yield viewed


# Who may ask.


def test_it_listens_on_loopback_only(viewed: Viewed) -> None:
    assert viewed.server.server_address[0] == "127.0.0.1"


def test_every_start_has_another_token(root: Path) -> None:
    with viewing(root) as one, viewing(root) as other:
        assert one.root != other.root
        assert len(one.root.strip("/")) >= 32


@pytest.mark.parametrize(
    "path",
    ["/", "", "/traces.json", "/view.js", "/index.html", "/x/", "/x/traces.json", "/?token=x", "*"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_without_the_token_nothing_is_told(viewed: Viewed, path: str, method: str) -> None:
    answer = viewed.ask(path or "/", method)
    assert answer.status == 403
    assert answer.body == (b"Forbidden\n" if method == "GET" else b"")


def test_a_wrong_token_is_told_no_more_than_none(viewed: Viewed) -> None:
    token = viewed.root.strip("/")
    answers = [
        viewed.ask(f"/{wrong}/{rest}")
        for wrong in (token[:-1], token + "x", token.swapcase(), f"{token}%00", f"%2f{token}")
        for rest in ("", "traces.json", "report/a.stepscope", "report/none")
    ]
    values = [(a.status, a.body, {**a.headers, "Date": ""}) for a in answers]
    assert all(item == values[0] for item in values)
    assert values[0][0] == 403


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("",),
        ("evil.example",),
        ("evil.example:{port}",),
        ("127.0.0.1.evil.example",),
        ("localhost.evil.example:{port}",),
        ("127.0.0.1@evil.example",),
        ("127.0.0.2",),
        ("0.0.0.0:{port}",),
        ("127.0.0.1:{port}", "evil.example"),
        ("127.0.0.1, evil.example",),
    ],
)
def test_a_host_that_is_not_this_machine_is_refused(viewed: Viewed, hosts: tuple[str, ...]) -> None:
    named = tuple(host.format(port=viewed.port) for host in hosts)
    answer = viewed.ask(viewed.root, hosts=named)
    assert (answer.status, answer.body) == (403, b"Forbidden\n")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "localhost:1"]
)
def test_names_of_this_machine_are_fine(viewed: Viewed, host: str) -> None:
    assert viewed.ask(viewed.root, hosts=(host.format(port=viewed.port),)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_only_get_and_head(viewed: Viewed, method: str) -> None:
    for path in (viewed.root, viewed.root + "traces.json", "/"):
        answer = viewed.ask(path, method)
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET, HEAD"


def test_the_browsers_ticket_is_good_for_once(viewed: Viewed) -> None:
    ticket = urlsplit(viewed.server.url_for_once()).path
    assert viewed.ask(ticket, "HEAD").status == 403
    assert viewed.ask(ticket + "/traces.json").status == 403
    first = viewed.ask(ticket)
    assert (first.status, first.headers["Location"]) == (303, viewed.root)
    assert viewed.ask(ticket).status == 403


def test_what_is_no_http_is_not_repeated(viewed: Viewed) -> None:
    for words in (
        b"<script>alert(1)</script>\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\n",
    ):
        with socket.create_connection(("127.0.0.1", viewed.port), timeout=60) as client:
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(4096), b""))
        assert b"alert" not in answer
        assert viewed.root.strip("/").encode() not in answer


# What leaves the folder.


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json",
        "..%2fsecret.json",
        "%2e%2e%2fsecret.json",
        "%2e%2e/secret.json",
        "..%5csecret.json",
        "..%252fsecret.json",
        "a.stepscope/../../secret.json",
        "a.stepscope%2f..%2f..%2fsecret.json",
        "./a.stepscope",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "{secret}",
        "a.stepscope%00",
        "%00",
        "a.stepscope%2fmeta.json",
        "a.stepscope/meta.json",
        "",
        ".",
        "..",
        "%ff%fe",
        "~",
        "file:%2f%2f%2fetc%2fpasswd",
        "x" * 5_000,
    ],
)
@pytest.mark.parametrize(
    "kind", ["report", "progress", "perfetto", "pftrace", "pftrace-progress", "static", ""]
)
def test_no_path_leads_out_of_the_folder(viewed: Viewed, root: Path, kind: str, name: str) -> None:
    name = name.format(secret=quote(str(root.parent / "secret.json"), safe=""))
    answer = viewed.get(f"{kind}/{name}" if kind else f"/{name}")
    assert (answer.status, answer.body) == (404, b"Not Found\n")
    viewed.settle()
    assert not list(_reports(viewed))


def _reports(viewed: Viewed) -> list[str]:
    return os.listdir(viewed.server.library._reports.name)  # noqa: PTH208


def test_a_link_out_of_the_folder_has_no_report(viewed: Viewed, root: Path) -> None:
    (root / "link.json").symlink_to(root.parent / "secret.json")
    (root / "up").symlink_to(root.parent)
    for name in ("link.json", "up%2Fsecret.json"):
        assert viewed.get(f"report/{name}").status == 404
    assert [trace["name"] for trace in viewed.traces()] == ["a.stepscope"]


# What it answers.


def test_every_answer_has_the_headers_of_a_careful_server(viewed: Viewed) -> None:
    viewed.traces()
    viewed.get("report/a.stepscope")
    viewed.settle()
    paths = (
        "",
        "traces.json",
        "view.js",
        "view.css",
        "static/dom.js",
        "nothing",
        "report/a.stepscope",
    )
    for answer in [viewed.ask("/"), *map(viewed.get, paths)]:
        headers = answer.headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Server"] == "stepscope"
        assert int(headers["Content-Length"]) == len(answer.body)
    policy = viewed.get("").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_head_is_get_without_the_body(viewed: Viewed) -> None:
    for path in ("", "traces.json", "view.js"):
        got, asked = viewed.get(path), viewed.ask(viewed.root + path, "HEAD")
        assert (asked.status, asked.body) == (200, b"")
        assert asked.headers["Content-Length"] == got.headers["Content-Length"]


def test_the_list_tells_date_size_and_figures(viewed: Viewed, root: Path) -> None:
    (trace,) = viewed.traces()
    assert trace["name"] == trace["link"] == "a.stepscope"
    assert trace["written_ms"] == 1_699_996_400_000
    assert trace["bytes"] == sum(part.stat().st_size for part in (root / "a.stepscope").iterdir())
    assert trace["figures"]["events"] == 6
    assert trace["figures"]["top_operator"] == "aten::mm"
    assert (trace["error"], trace["notes"]) == ("", [])


def test_new_traces_appear_and_removed_ones_disappear(viewed: Viewed, root: Path) -> None:
    saved(root / "sub" / "b.json", age_s=100)
    assert [trace["name"] for trace in viewed.traces()] == ["sub/b.json", "a.stepscope"]
    (root / "sub" / "b.json").unlink()
    assert [trace["name"] for trace in viewed.traces()] == ["a.stepscope"]


def test_a_trace_is_read_once_until_it_changes(
    viewed: Viewed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = library_module.read_trace
    monkeypatch.setattr(
        library_module, "read_trace", lambda path, tell: read.append(path.name) or real(path, tell)
    )
    saved(root / "b.json")
    viewed.traces()
    viewed.traces()
    assert sorted(read) == ["a.stepscope", "b.json"]
    saved(root / "b.json", small_trace("aten::other"), age_s=100)
    assert viewed.traces()[0]["figures"]["top_operator"] == "aten::other"
    assert sorted(read) == ["a.stepscope", "b.json", "b.json"]


def test_a_broken_trace_tells_its_error_in_a_line(viewed: Viewed, root: Path) -> None:
    (root / "b\n.json").write_text("")
    (root / "c.stepscope").mkdir()
    written(root / "b\n.json", age_s=200)
    written(root / "c.stepscope", age_s=100)
    folder, empty, _ = viewed.traces()
    assert folder["error"].startswith("'c.stepscope' is not a saved trace")
    assert "is empty" in empty["error"]
    assert "\n" not in empty["error"]
    assert str(root) not in folder["error"] + empty["error"]
    assert folder["figures"] is None
    viewed.get("report/c.stepscope")
    viewed.settle()
    assert viewed.get("report/c.stepscope").status == 202
    assert "is not a saved trace" in viewed.get("progress/c.stepscope").json["error"]


def test_a_trace_read_in_part_says_so(viewed: Viewed, root: Path) -> None:
    whole = saved(root / "b.json").read_bytes()
    (root / "b.json").write_bytes(whole[: whole.rindex(b'"ph"')])
    written(root / "b.json", age_s=100)
    cut = viewed.traces()[0]
    assert cut["figures"]["events"] > 0
    assert cut["notes"][0].startswith("b.json ends early")


def test_a_trace_of_which_nothing_could_be_read_is_broken(viewed: Viewed, root: Path) -> None:
    (root / "b.json").write_text('{"traceEvents": [{"ph": "X", "na')
    written(root / "b.json", age_s=100)
    cut = viewed.traces()[0]
    assert cut["error"].startswith("b.json ends early after 0 events")
    assert cut["figures"] is None


# Reports.


def test_a_report_is_built_when_it_is_asked_for(viewed: Viewed) -> None:
    waiting = viewed.get("report/a.stepscope")
    assert waiting.status == 202
    assert b"Building the report" in waiting.body
    viewed.settle()
    assert viewed.get("progress/a.stepscope").json["ready"]
    report = viewed.get("report/a.stepscope")
    assert report.status == 200
    assert b"<title>a.stepscope</title>" in report.body
    assert b'http-equiv="Content-Security-Policy" content="default-src \'none\'' in report.body
    assert viewed.ask(viewed.root + "report/a.stepscope", "HEAD").body == b""


def test_a_trace_is_handed_to_perfetto(viewed: Viewed, tmp_path: Path) -> None:
    page = viewed.get("perfetto/a.stepscope")
    assert b"Open in Perfetto" in page.body
    # Only this page may be answered by the window that it opens.
    assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin-allow-popups"
    assert viewed.get("").headers["Cross-Origin-Opener-Policy"] == "same-origin"
    viewed.settle()
    assert viewed.get("pftrace-progress/a.stepscope").json["ready"]
    trace = viewed.get("pftrace/a.stepscope")
    assert trace.headers["Content-Type"].startswith("application/octet-stream")
    (tmp_path / "a.pftrace").write_bytes(trace.body)
    assert sorted(read_trace(tmp_path / "a.pftrace").names()) == sorted(small_trace().names())


def test_a_changed_trace_gets_a_new_report(viewed: Viewed, root: Path) -> None:
    saved(root / "b.json")
    viewed.get("report/b.json")
    viewed.settle()
    before = viewed.get("report/b.json")
    saved(root / "b.json", small_trace("aten::other", "aten::another"), age_s=100)
    assert viewed.get("report/b.json").status == 202
    viewed.settle()
    after = viewed.get("report/b.json")
    assert (before.status, after.status) == (200, 200)
    assert before.body != after.body


def test_only_the_last_reports_are_kept(
    viewed: Viewed, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_REPORTS_KEPT", 2)
    for name in ("b.json", "c.json", "d.json"):
        saved(root / name)
    for name in ("a.stepscope", "b.json", "c.json", "d.json"):
        viewed.get(f"report/{name}")
        viewed.settle()
    assert len(_reports(viewed)) == 2
    assert viewed.get("report/d.json").status == 200
    assert viewed.get("report/a.stepscope").status == 202


def test_reports_are_removed_in_the_end(root: Path) -> None:
    with viewing(root) as viewed:
        viewed.get("report/a.stepscope")
        viewed.settle()
        folder = viewed.server.library._reports.name
        assert os.stat(folder).st_mode & 0o077 == 0  # noqa: PTH116
        assert _reports(viewed)
    assert not os.path.exists(folder)  # noqa: PTH110


# Hostile names.


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>.json",
        "a?b#c%2f&d=.json",
        "line\nfeed\t\x01.json",
        "ünï 漢字 🙂 \u2028.json",
        os.fsdecode(b"\xff\xfe not unicode.json"),
        "back\\slash 'quote' \"quote\".json",
    ],
)
def test_any_file_name_can_be_listed_and_opened(viewed: Viewed, root: Path, name: str) -> None:
    saved(root / "sub" / name, age_s=100)
    trace = viewed.traces()[0]
    assert trace["error"] == ""
    assert (
        trace["name"] == f"sub/{name.encode('utf-8', 'surrogateescape').decode(errors='replace')}"
    )
    assert viewed.get(f"report/{trace['link']}").status == 202
    viewed.settle()
    report = viewed.get(f"report/{trace['link']}")
    assert report.status == 200
    assert b"<img src=x" not in report.body


@pytest.mark.parametrize("name", HOSTILE, ids=[name[:12] for name in HOSTILE])
def test_hostile_operators_are_data(viewed: Viewed, root: Path, name: str) -> None:
    saved(root / "b.stepscope", small_trace(name), age_s=100)
    result = viewed.traces()[0]["figures"]["top_operator"]
    assert result == name if len(name) <= 200 else name.startswith(result[:-1])
