"""Slices that sources written in Python begin and end."""

from __future__ import annotations

import pytest

from recording import parents, ranges_recorded, trace_of
from stepscope import _native
from stepscope.trace.model import SliceKind

MODULE, PYTHON = int(SliceKind.MODULE), int(SliceKind.PYTHON)


def test_slices_of_every_kind_nest_with_ranges() -> None:
    with ranges_recorded() as session:
        outer = _native.begin_slice(PYTHON, "outer", "")
        with _native.record_function("range"):
            inner = _native.begin_slice(MODULE, "inner", "")
            _native.end_slice(inner)
        _native.end_slice(outer)
    trace = trace_of(session)
    assert parents(trace) == [("outer", None), ("range", "outer"), ("inner", "range")]
    kinds = [SliceKind.PYTHON, SliceKind.RANGE, SliceKind.MODULE]
    assert trace.slices.kind.tolist() == kinds
    categories = [trace.strings[int(i)] for i in trace.slices.category]
    assert categories == ["python_function", "user_annotation", "module"]


def test_integers_of_the_fragment_are_columns_and_the_rest_stays() -> None:
    fragment = '"Class": "A\\ud800", "Parameters": 12, "ok": true, "big": [1]'
    with ranges_recorded() as session:
        _native.end_slice(_native.begin_slice(MODULE, "a", fragment))
        with _native.record_function("b", '"Parameters": 3'):  # a user's text, whatever it says
            pass
        _native.end_slice(_native.begin_slice(MODULE, "c", '"Parameters": 5'))
    slices, strings = trace_of(session).slices, trace_of(session).strings
    assert slices.args.integers.keys() == {"Parameters"}
    assert slices.args.integers["Parameters"].rows.tolist() == [0, 2]
    pairs = [slices.args.of_row(row, strings) for row in range(3)]
    assert pairs[0] == {"Class": "A\ud800", "Parameters": 12, "ok": True, "big": [1]}
    assert pairs[1] == {"args": '"Parameters": 3'}
    assert pairs[2] == {"Parameters": 5}


def test_nothing_begins_while_nothing_records() -> None:
    assert _native.begin_slice(MODULE, "a", "") is None
    _native.end_slice(None)


def test_a_handle_ends_once_and_at_the_latest_when_it_is_dropped() -> None:
    with ranges_recorded() as session:
        handle = _native.begin_slice(MODULE, "ended", "")
        _native.end_slice(handle)
        with pytest.raises(ValueError, match="has ended already"):
            _native.end_slice(handle)
        handle = _native.begin_slice(MODULE, "dropped", "")
        del handle
    trace = trace_of(session)
    assert parents(trace) == [("ended", None), ("dropped", None)]
    assert not trace.slices.flags.any()


def test_a_slice_that_outlives_its_recording_is_unfinished_there() -> None:
    with ranges_recorded() as session:
        handle = _native.begin_slice(MODULE, "open", "")
    with ranges_recorded() as next_session:
        _native.end_slice(handle)
    assert trace_of(session).slices.flags.tolist() == [1]
    assert len(trace_of(next_session)) == 0


@pytest.mark.parametrize("name", ['"\\\n</script>', "\0", "\ud800", "🚀" * 10_000])
def test_any_text_is_a_name(name: str) -> None:
    with ranges_recorded() as session:
        _native.end_slice(_native.begin_slice(MODULE, name, ""))
    assert list(trace_of(session).names()) == [name.encode("utf-8", "replace").decode()]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, "a", ""), ValueError, "not 1"),
        ((11 + 256, "a", ""), ValueError, "not 267"),
        (("x", "a", ""), TypeError, "integer"),
        ((11, 3, ""), TypeError, "name that is a str, not int: 3"),
        ((11, "a", None), TypeError, "fragment that is a str"),
        ((11, "a"), TypeError, "takes a kind, a name and a fragment, not 2"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[object, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        _native.begin_slice(*arguments)  # type: ignore[call-arg,arg-type]
    with pytest.raises(TypeError, match="what begin_slice"):
        _native.end_slice(7)
