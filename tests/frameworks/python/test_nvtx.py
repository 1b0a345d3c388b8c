"""stepscope.nvtx, and the program's own NVTX and ITT ranges in the trace."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from recording import parents, ranges_recorded, run_python, trace_of
from stepscope import nvtx as ours
from stepscope.frameworks.python.annotations import Annotations
from stepscope.record.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.trace.model import Trace


@contextlib.contextmanager
def annotations_recorded() -> Iterator[Session]:
    session = Session([Annotations()])
    session.start()
    try:
        yield session
    finally:
        session.stop()


def names(trace: Trace) -> list[str]:
    return list(trace.names())


# ---- our own functions


def test_ranges_marks_and_depths_are_as_those_of_torch() -> None:
    with ranges_recorded() as session:
        assert ours.range_push("outer") == 0
        with ours.range("step {}", 3):
            ours.mark("now")
        assert ours.range_pop() == 0
        assert ours.range_pop() == -1
    assert parents(trace_of(session)) == [
        ("outer", None),
        ("step 3", "outer"),
        ("now", "step 3"),
    ]


def test_annotate_takes_a_block_or_a_function() -> None:
    @ours.annotate(color="blue", domain="test")
    def function(n: int) -> int:
        return function(n - 1) if n else 0

    @ours.annotate("another name")
    def other() -> None: ...

    with ranges_recorded() as session:
        with ours.annotate("block", color="red", payload=3):
            assert function(1) == 0
        other()
    assert parents(trace_of(session)) == [
        ("block", None),
        ("function", "block"),
        ("function", "function"),
        ("another name", None),
    ]
    assert function.__name__ == "function"


@pytest.mark.parametrize("name", ['"\\\n</script>', "{} {x", "\ud800", "🚀" * 1000])
def test_any_text_is_a_name(name: str) -> None:
    with ranges_recorded() as session, ours.annotate(name), ours.range(name):
        ours.mark(name)
    shown = name.encode("utf-8", "replace").decode()
    assert names(trace_of(session)) == [shown] * 3


# ---- the program's own ranges, through the real nvtx package


@pytest.fixture
def package() -> Any:
    return pytest.importorskip("nvtx")


def functions_of(package: Any) -> list[Any]:
    on_class = ("__enter__", "__exit__", "__call__")
    return [
        *(vars(package)[name] for name in ("push_range", "pop_range", "mark", "annotate")),
        *(vars(package.annotate)[name] for name in on_class),
    ]


def test_ranges_that_the_program_gives_to_the_nvtx_package_are_recorded(package: Any) -> None:
    before = functions_of(package)
    with annotations_recorded() as session:
        package.push_range("pushed", color="red")
        with package.annotate("block", domain="d"):
            package.mark(message="moment")
        package.pop_range()

        @package.annotate()
        def function() -> int:
            return 3

        assert function() == 3
        package.pop_range()  # one too many
    assert function() == 3
    assert functions_of(package) == before
    package.push_range("later")
    package.pop_range()
    assert parents(trace_of(session)) == [
        ("pushed", None),
        ("block", "pushed"),
        ("moment", "block"),
        ("function", None),
    ]


def test_what_we_forward_to_the_package_is_recorded_once(package: Any) -> None:
    look = {"color": "red", "domain": "d"}
    with annotations_recorded() as session, ours.range("range"), ours.annotate("annotate", **look):
        ours.mark("mark")
    assert names(trace_of(session)) == ["range", "annotate", "mark"]
    del package  # it only has to be there


def test_a_range_left_open_by_one_recording_does_not_confuse_the_next(package: Any) -> None:
    with annotations_recorded():
        package.push_range("left open")
    package.pop_range()
    with annotations_recorded() as session:
        package.push_range("a")
        package.push_range("b")
        package.pop_range()
        package.pop_range()
    assert parents(trace_of(session)) == [("a", None), ("b", "a")]


def test_two_recordings_at_once_share_one_change(package: Any) -> None:
    before = functions_of(package)
    with annotations_recorded() as outer:
        with annotations_recorded() as inner:
            package.mark("both")
        package.mark("outer only")
    assert names(trace_of(inner)) == ["both"]
    assert names(trace_of(outer)) == ["both", "outer only"]
    assert functions_of(package) == before


def test_a_package_that_is_imported_later_is_heard(package: Any) -> None:
    del package
    done = run_python(
        """
        import sys
        from stepscope.record.session import Session
        from stepscope.frameworks.python.annotations import Annotations
        session = Session([Annotations()])
        session.start()
        assert "nvtx" not in sys.modules
        import nvtx
        with nvtx.annotate("block"):
            nvtx.mark("mark")
        session.stop()
        print([name for name in session.trace.names() if not name.startswith("import")])
        """
    )
    assert done.stdout.strip() == "['block', 'mark']", done.stderr


# ---- and through torch


@pytest.mark.parametrize("face", ["cuda.nvtx", "profiler.itt"])
def test_ranges_given_to_torch_are_recorded_or_refused_as_before(face: str) -> None:
    functions = pytest.importorskip(f"torch.{face}")
    names_of = ("range_push", "range_pop", "mark")
    before = [vars(functions)[name] for name in names_of]
    with annotations_recorded() as session:
        try:
            functions.range_push("pushed")
        except RuntimeError as error:  # torch was built without it: nothing began
            assert "not installed" in str(error)
            expected = []
        else:
            functions.mark("mark")
            with functions.range("block {}", 1):
                pass
            functions.range_pop()
            expected = [("pushed", None), ("mark", "pushed"), ("block 1", "pushed")]
    assert parents(trace_of(session)) == expected
    assert [vars(functions)[name] for name in names_of] == before
