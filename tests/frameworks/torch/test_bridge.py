"""The bridge to torch: built once, kept, and done without where it cannot be built."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from recording import run_python, start_python
from stepscope.frameworks.torch.bridge.build import key_of
from stepscope.frameworks.torch.bridge.prebuilt import OPERATORS, Bridge, TorchBuild

if TYPE_CHECKING:
    from pathlib import Path

# Records one step and tells what was seen and how.
RECORD = """
import json, sys, torch
from stepscope import profile, record_function
with profile() as p, record_function("range"):
    torch.ones(2, requires_grad=True).exp().sum().backward()
trace = p.trace
names = list(trace.names())
seen = {
    "source": trace.info.sources["torch"],
    "names": sorted(names),
    "parent of ExpBackward0": names[trace.slices.parent[names.index("ExpBackward0")]],
}
print(json.dumps(seen))
"""
NAMES = {"range", "aten::exp", "ExpBackward0"}
NONE_PREBUILT = {"STEPSCOPE_BRIDGES_DIR": ""}

pytestmark = pytest.mark.slow


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def record(cache: Path | None, **environment: str | None) -> tuple[dict[str, Any], list[str]]:
    """Return what a program of its own saw, and what it was told on stderr."""
    done = run_python(
        RECORD, STEPSCOPE_CACHE_DIR=cache and str(cache), **{**NONE_PREBUILT, **environment}
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert set(seen["names"]) >= NAMES
    assert seen["parent of ExpBackward0"] == "autograd::engine::evaluate_function: ExpBackward0"
    return seen, our_lines(done.stderr)


def our_lines(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("stepscope:")]


def libraries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.so"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the bridge, which two processes wanted at the same time."""
    cache = tmp_path_factory.mktemp("cache")
    programs = [
        start_python(RECORD, STEPSCOPE_CACHE_DIR=str(cache), **NONE_PREBUILT) for _ in range(2)
    ]
    ends = [program.communicate(timeout=300) for program in programs]
    assert [program.returncode for program in programs] == [0, 0], ends
    for out, _ in ends:
        assert "bridge" in json.loads(out)["source"]
    waited, (first, second) = sorted((our_lines(err) for _, err in ends), key=len)
    assert waited == []
    assert "building the bridge to torch" in first
    assert "built in" in second
    assert str(cache) in second
    return cache


@pytest.fixture
def compiler(built: Path, tmp_path: Path) -> str:
    """A compiler that has compiled the bridge before, and gives what it made then.

    Compiling it takes ten seconds; who calls the compiler, and when, can be seen without.
    """
    (library,) = libraries(built)
    path = tmp_path / "kept-c++"
    path.write_text(
        f"""#!/bin/sh
        [ "$1" = --version ] && exit
        while [ "$1" != -o ]; do shift; done
        exec cp {shlex.quote(str(library))} "$2"
        """
    )
    path.chmod(0o755)
    return str(path)


# ---- where it can be built


@pytest.mark.slow
def test_two_processes_that_start_at_once_build_one_file_and_say_so_in_two_lines(
    built: Path,
) -> None:
    (library,) = libraries(built)
    assert library.stat().st_size > 10_000
    assert not list(built.glob("*.part"))


def test_the_second_process_builds_nothing_and_says_nothing(built: Path) -> None:
    (library,) = libraries(built)
    before = library.stat()
    seen, lines = record(built, CXX="/bin/false")
    assert "bridge" in seen["source"]
    assert lines == []
    assert library.stat() == before


def test_another_source_or_torch_is_another_file() -> None:
    torch = pytest.importorskip("torch")
    build = TorchBuild.of(torch)
    other = TorchBuild("0.0.0", build.root, build.cxx11_abi)
    other_abi = TorchBuild(build.version, build.root, not build.cxx11_abi)
    other_source = Bridge("", "cuda_memory_bridge.cpp", "", ())
    keys = {key_of(one, OPERATORS) for one in (build, other, other_abi)}
    keys.add(key_of(build, other_source))
    assert len(keys) == 4
    assert build.version in key_of(build, OPERATORS)


# ---- where to keep it


def test_a_home_that_cannot_be_written_is_no_obstacle(compiler: str, tmp_path: Path) -> None:
    """Permission bits do not bind root, so the folder is one that nobody can make."""
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    seen, lines = record(
        None, CXX=compiler, HOME="/dev/null", XDG_CACHE_HOME=None, TMPDIR=str(elsewhere)
    )
    assert "bridge" in seen["source"]
    assert len(lines) == 2
    assert "it cannot be cached" in lines[1]  # a temporary folder is shared with others
    assert list(elsewhere.glob("stepscope-*")) == []


def test_a_cache_below_a_plain_file_is_no_obstacle(compiler: str, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    seen, lines = record(
        blocked / "cache",
        CXX=compiler,
        XDG_CACHE_HOME=str(blocked),
        TMPDIR=str(tmp_path),
        HOME=str(blocked),
    )
    assert "bridge" in seen["source"]
    assert len(lines) == 2


# ---- where it cannot be built


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["/bin/false", "/nonexistent/c++", "nonexistent-c++ -O3"])
def test_a_broken_compiler_means_torchs_collector_and_one_line(cache: Path, compiler: str) -> None:
    seen, lines = record(cache, CXX=compiler)
    assert "torch's own collector" in seen["source"]
    assert len(lines) == 1, lines
    assert compiler.split(maxsplit=1)[0] in lines[0]
    assert libraries(cache) == []


def test_no_compiler_at_all_means_torchs_collector_and_one_line(
    cache: Path, tmp_path: Path
) -> None:
    seen, lines = record(cache, PATH=str(tmp_path), CXX=None)
    assert "torch's own collector" in seen["source"]
    assert len(lines) == 1
    assert "compiler" in lines[0]


def test_a_compiler_that_writes_errors_is_quoted(cache: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho 'error: cannot find the moon' >&2\nexit 1\n")
    compiler.chmod(0o755)
    _, lines = record(cache, CXX=str(compiler))
    assert len(lines) == 1
    assert "cannot find the moon" in lines[0]


def test_both_ways_see_the_same(built: Path) -> None:
    bridge, _ = record(built)
    collector, lines = record(built, STEPSCOPE_TORCH_COLLECTOR="kineto")
    assert lines == []
    assert bridge["names"] == collector["names"]
    assert bridge["source"] != collector["source"]


def test_asking_for_the_bridge_where_there_is_none_is_an_error(cache: Path) -> None:
    done = run_python(
        """
        import torch
        from stepscope import StepscopeError, TorchCollector, profile
        p = profile(torch_collector=TorchCollector.BRIDGE)
        for _ in range(2):
            try:
                p.start()
            except StepscopeError as error:
                print(error)
        p.stop()
        """,
        STEPSCOPE_CACHE_DIR=str(cache),
        CXX="/bin/false",
        **NONE_PREBUILT,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert "/bin/false" in lines[0]


def test_an_unknown_collector_is_named_with_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepscope import profile

    monkeypatch.setenv("STEPSCOPE_TORCH_COLLECTOR", "cupti")
    with pytest.raises(ValueError, match="'cupti' is not one of auto, bridge, kineto"):
        profile()


# ---- a cache that was damaged


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda whole: b"not a library", id="text"),
        pytest.param(lambda whole: whole[:4096], id="cut short"),
    ],
)
def test_a_damaged_bridge_is_built_anew(
    built: Path, cache: Path, compiler: str, damage: Any
) -> None:
    shutil.copytree(built, cache)
    (library,) = libraries(cache)
    library.write_bytes(damage(library.read_bytes()))
    seen, lines = record(cache, CXX=compiler)
    assert "bridge" in seen["source"]
    assert len(lines) == 2, lines
    assert record(cache, CXX="/bin/false")[1] == []
