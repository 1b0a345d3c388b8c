"""stepscope.itt: torch.profiler.itt's functions, recorded with or without torch and ITT."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from recording import chain_of, parents, ranges_recorded, row_of, run_python, trace_of
from stepscope import itt


def test_pushed_ranges_nest_and_tell_their_depth() -> None:
    with ranges_recorded() as session:
        assert itt.range_push("outer") == 0
        assert itt.range_push("inner") == 1
        assert itt.range_pop() == 1
        assert itt.range_pop() == 0
    assert parents(trace_of(session)) == [("outer", None), ("inner", "outer")]


def test_a_pop_without_a_push_is_harmless() -> None:
    # As torch's: it returns at once and raises nothing.
    with ranges_recorded() as session:
        assert itt.range_pop() == -1
        assert itt.range_push("after") == 0
        itt.range_pop()
    assert parents(trace_of(session)) == [("after", None)]


def test_a_range_may_begin_before_the_recording_and_end_in_it() -> None:
    itt.range_push("before")
    with ranges_recorded() as session:
        itt.range_push("inside")
        assert itt.range_pop() == 1
        assert itt.range_pop() == 0
    assert parents(trace_of(session)) == [("inside", None)]


def test_a_mark_is_a_range_without_a_length() -> None:
    with ranges_recorded() as session, itt.range("around"):
        assert itt.mark("now") is None
    trace = trace_of(session)
    assert parents(trace) == [("around", None), ("now", "around")]
    assert trace.slices.duration_ns[1] < trace.slices.duration_ns[0]


def test_range_is_a_context_manager_and_a_decorator() -> None:
    @itt.range("decorated")
    def function() -> int:
        return 3

    with ranges_recorded() as session:
        with itt.range("step {} of {total}", 1, total=2):
            assert function() == 3
        assert function() == 3
        with pytest.raises(KeyError, match="lost"), itt.range("failing"):
            raise KeyError("lost")
    assert parents(trace_of(session)) == [
        ("step 1 of 2", None),
        ("decorated", "step 1 of 2"),
        ("decorated", None),
        ("failing", None),
    ]


def test_every_thread_has_its_own_stack() -> None:
    def push_and_pop(name: str) -> int:
        depth = itt.range_push(name)
        itt.range_pop()
        return depth

    with ranges_recorded() as session, itt.range("main"), ThreadPoolExecutor(4) as pool:
        assert set(pool.map(push_and_pop, ["a", "b", "c", "d"])) == {0}
    trace = trace_of(session)
    assert chain_of(trace, row_of(trace, "c")) == ("c",)


@pytest.mark.parametrize("name", ["{} {x", '"\\\n</script>', "\ud800", "🚀" * 1000, ""])
def test_any_text_is_a_name(name: str) -> None:
    with ranges_recorded() as session, itt.range(name):
        itt.mark(name)
    shown = name.encode("utf-8", "replace").decode()
    assert parents(trace_of(session)) == [(shown, None), (shown, shown)]


def test_what_is_no_text_is_refused_before_anything_begins() -> None:
    with pytest.raises(TypeError, match="not int: 3"):
        itt.range_push(3)  # type: ignore[arg-type]
    assert itt.range_push("a") == 0
    itt.range_pop()


def test_the_names_and_arguments_are_those_of_torch() -> None:
    theirs = pytest.importorskip("torch.profiler.itt")
    assert sorted(itt.__all__) == sorted(theirs.__all__)
    for name in itt.__all__:
        ours, torchs = (inspect.signature(getattr(module, name)) for module in (itt, theirs))
        assert list(ours.parameters) == list(torchs.parameters)


def test_it_works_beside_a_torch_with_or_without_itt() -> None:
    pytest.importorskip("torch")
    import torch  # noqa: F401 - its ITT hears of the ranges where it has any

    with ranges_recorded() as session:
        assert itt.is_available()
        with itt.range("both"):
            itt.mark("🚀 \ud800")
    assert parents(trace_of(session))[0] == ("both", None)


def test_it_needs_no_framework() -> None:
    done = run_python(
        """
        import sys
        from stepscope import itt
        with itt.range("a"):
            itt.mark("b")
        print(itt.is_available(), sorted({"torch", "numpy"} & set(sys.modules)))
        """
    )
    assert done.stdout == "True []\n", done.stderr
