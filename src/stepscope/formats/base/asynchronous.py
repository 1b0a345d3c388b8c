"""Chrome's asynchronous events: operations that belong to no thread, as ranges on their own tracks.

A file has begins and ends with equal ids: ``b`` and ``e``, which may nest, or the older ``S`` and
``F``. Their instants (``n``, ``T``, ``p``) stay marks. On a thread's track such a range would seem
to contain the thread's other work, so operations have tracks of their own: one per category and
process, more if they overlap. The range's fields keep the file's values: the letter (``ph``), the
thread (``tid``), and values that differ at the end (``end tid``, ``end pid``).
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.formats.base.texts import AddedTexts
from stepscope.trace.fragments import pairs_of
from stepscope.trace.kinds import SliceFlags
from stepscope.trace.schema import Marks, Slices, Track
from stepscope.trace.strings import Strings
from stepscope.trace.table import Args, IntColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.trace.model import Bool, Trace
    from stepscope.trace.schema import Captured
    from stepscope.trace.table import Int64, UInt8, UInt32


LETTER, PROCESS, THREAD, AT_END = "ph", "pid", "tid", "end "
OPERATIONS = np.uint32(0xFFFFFFFF)
"""``Slices.context`` of asynchronous ranges: they nest in each other, see ``nesting.h``."""

_BEGINS, _ENDS = b"bS", b"eF"
_MOST_TRACKS = 64  # per category and process; more concurrent ranges overlap on the last
_IDENTITY = ("id", "id2", "scope")
INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_NOBODY = -1


def async_rows(slices: Slices) -> UInt32:
    """Return the rows of asynchronous ranges of foreign files."""
    column = slices.fields.integers.get(LETTER)
    return np.zeros(0, np.uint32) if column is None else column.rows


def with_async_ranges(captured: Captured) -> tuple[Captured, dict[str, int]]:
    """Pair begins and ends to ranges; return the tables, and how many of either are unpaired.

    An end without a begin stays a mark. A range without an end lasts until the end of the trace.
    """
    marks = captured.marks
    is_begin = np.isin(marks.phase, np.frombuffer(_BEGINS, np.uint8))
    if not is_begin.any():
        return captured, {}
    is_end = np.isin(marks.phase, np.frombuffer(_ENDS, np.uint8))
    rows = np.flatnonzero(is_begin | is_end)
    events = marks.take(rows)
    operation, everywhere = _operations(events, captured.tracks, captured.strings)
    partner = _paired(events, operation, everywhere)
    begins = np.flatnonzero(is_begin[rows])
    ends = partner[begins]
    strays = int(is_end.sum() - (ends >= 0).sum())
    texts = AddedTexts(captured.strings)
    ranges = _ranges(captured, events, begins, ends, texts)
    ranges, tracks = _placed(ranges, operation[begins], captured)
    slices = replace(captured.slices, context=np.zeros(len(captured.slices), np.uint32))
    used = np.zeros(len(marks), np.bool_)
    used[rows] = is_begin[rows] | (partner >= 0)
    counts = {"begins without an end": int((ends < 0).sum()), "ends without a begin": strays}
    paired = replace(
        captured,
        slices=Slices.concat([slices, ranges]),
        tracks=tracks,
        strings=Strings(*texts.table()),
        marks=marks.take(~used),
    )
    return paired, {what: count for what, count in counts.items() if count}


def _operations(events: Marks, tracks: Sequence[Track], strings: Strings) -> tuple[Int64, Int64]:
    """Return two numbers per event: of its operation in its process, and in the whole file.

    An id belongs to the process if the file says so (``id2.local``), else to the file; but many
    tools count anew in each process, so a begin of the same process is preferred.
    """
    codes: dict[Any, int] = {}
    is_local: dict[int, bool] = {0: False}
    of_rest = {0: 0}
    rest = events.fields.rest if len(events.fields.rest) else np.zeros(len(events), np.uint32)
    for text in np.unique(rest).tolist():
        fields = pairs_of(strings[text]) if text else {}
        key = tuple(str(fields[name]) for name in _IDENTITY if name in fields)
        of_rest[text] = codes.setdefault(key, len(codes) + 1)
        is_local[text] = isinstance(fields.get("id2"), dict) and "local" in fields["id2"]
    distinct, inverse = np.unique(rest, return_inverse=True)
    named = np.array([of_rest[text] for text in distinct.tolist()], np.int64)[inverse]
    local = np.array([is_local[text] for text in distinct.tolist()], np.bool_)[inverse]
    number = events.fields.dense("id", len(events), 0)
    nestable = np.isin(events.phase, np.frombuffer(b"be", np.uint8))
    pids: dict[str, int] = {}
    pid_of_track = np.array([pids.setdefault(t.pid, len(pids)) for t in tracks], np.int64)
    pid = pid_of_track[events.track]
    everywhere = _coded(nestable, events.category, named, number, np.where(local, pid, _NOBODY))
    return _coded(everywhere, pid), everywhere


def _coded(*columns: NDArray[Any]) -> Int64:
    """Return a number for each distinct row."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        inner = np.unique(column, return_inverse=True)[1].astype(np.int64)
        code = np.unique(code * (int(inner.max(initial=0)) + 1) + inner, return_inverse=True)[1]
        code = code.astype(np.int64)
    return code


def _paired(events: Marks, operation: Int64, everywhere: Int64) -> Int64:
    """Return the end of each begin and the begin of each end, -1 without."""
    is_end = np.isin(events.phase, np.frombuffer(_ENDS, np.uint8))
    partner = np.full(len(events), _NOBODY, np.int64)
    for key in (operation, everywhere):
        # An end without a name closes the latest begin, whatever that is called.
        nameless = np.zeros(int(key.max()) + 1, np.bool_)
        nameless[key[is_end & (events.name == 0)]] = True
        name = np.where(nameless[key], 0, events.name)
        unpaired = np.flatnonzero(partner == _NOBODY)
        begin, end = _matched(
            _coded(key, name)[unpaired], events.time_ns[unpaired], is_end[unpaired]
        )
        partner[unpaired[begin]], partner[unpaired[end]] = unpaired[end], unpaired[begin]
    return partner


def _matched(key: Int64, time_ns: Int64, is_end: Bool) -> tuple[Int64, Int64]:
    """Match brackets of each key in time order; the latest open begin is closed first."""
    order = np.lexsort((time_ns, key))
    order = order[~_strays(key[order], is_end[order])]
    steps = np.where(is_end[order], -1, 1)
    level = np.cumsum(steps) + is_end[order]  # equal for a begin and its end
    by_level = np.lexsort((level, key[order]))
    place, level = order[by_level], level[by_level]
    if len(place) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first, second = place[:-1], place[1:]
    fits = (key[first] == key[second]) & (level[:-1] == level[1:])
    fits &= ~is_end[first] & is_end[second]
    return first[fits], second[fits]


def _strays(key: Int64, is_end: Bool) -> Bool:
    """Return the ends without an open begin of their key; rows are ordered by key."""
    if not len(key):
        return is_end
    depth = np.cumsum(np.where(is_end, -1, 1))
    starts = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    group = np.cumsum(np.isin(np.arange(len(key)), starts)) - 1
    before = np.concatenate(([0], depth))[starts]
    # The lowest depth so far; each group begins below all of the groups before it.
    floor = -group * (len(key) + 1)
    lowest = np.minimum.accumulate(np.minimum(depth - before[group], 0) + floor)
    previous = np.concatenate(([0], lowest[:-1]))
    previous[starts] = floor[starts]
    return is_end & (lowest < previous)


def _ranges(
    captured: Captured, events: Marks, begins: Int64, ends: Int64, texts: AddedTexts
) -> Slices:
    """Return the ranges, on the threads where they began."""
    first = events.take(begins)
    has_end = np.flatnonzero(ends >= 0)
    last = events.take(ends[has_end])
    latest_ns = max(
        int(captured.slices.end_ns.max(initial=np.iinfo(np.int64).min)),
        int(captured.marks.time_ns.max()),
    )
    duration_ns = latest_ns - first.time_ns
    duration_ns[has_end] = last.time_ns - first.time_ns[has_end]
    flags = np.full(len(begins), SliceFlags.ASYNC | SliceFlags.UNFINISHED, np.uint8)
    flags[has_end] = SliceFlags.ASYNC
    return Slices.of(
        name=first.name,
        category=first.category,
        start_ns=first.time_ns,
        duration_ns=duration_ns,
        track=first.track,
        flags=flags,
        context=np.full(len(begins), OPERATIONS, np.uint32),
        args=_joined_args(first, last, has_end, captured.strings, texts),
        fields=_fields(first, last, has_end, captured.tracks),
    )


def _joined_args(
    begins: Marks, ends: Marks, has_end: Int64, strings: Strings, texts: AddedTexts
) -> Args:
    """Merge the arguments of begins and ends; the end's win."""
    first, last, rows = begins.args, ends.args, len(begins)
    integers = dict(first.integers)
    for key, column in last.integers.items():
        places = has_end[column.rows]
        integers[key] = _overlaid(integers.get(key), places, column.values)
    if not last.rest.any():
        return Args(integers, first.rest)
    rest = first.rest.copy() if len(first.rest) else np.zeros(rows, np.uint32)
    both = np.stack((rest[has_end], last.rest), axis=1)
    distinct, inverse = np.unique(both, axis=0, return_inverse=True)
    ids = [
        max(one, other)
        if one == other or not one or not other
        else texts.add(f"{strings[one]}, {strings[other]}")
        for one, other in distinct.tolist()
    ]
    rest[has_end] = np.array(ids, np.uint32)[inverse.ravel()]
    return Args(integers, rest)


def _overlaid(column: IntColumn | None, rows: Int64, values: Int64) -> IntColumn:
    if column is not None:
        is_kept = ~np.isin(column.rows, rows)
        rows = np.concatenate((column.rows[is_kept].astype(np.int64), rows))
        values = np.concatenate((column.values[is_kept], values))
    order = np.argsort(rows, kind="stable")
    return IntColumn(rows[order].astype(np.uint32), values[order])


def _fields(first: Marks, last: Marks, has_end: Int64, tracks: Sequence[Track]) -> Args:
    """Return the top-level fields of begins, and those of ends that differ."""
    count = len(first)
    tid_known, tid = _numbers([track.tid for track in tracks])
    pid_known, pid = _numbers([track.pid for track in tracks])
    rows = np.flatnonzero(tid_known[first.track])
    integers = {
        **first.fields.integers,
        LETTER: IntColumn(np.arange(count, dtype=np.uint32), first.phase.astype(np.int64)),
        THREAD: IntColumn(rows.astype(np.uint32), tid[first.track[rows]]),
    }
    begun = first.track[has_end]
    moved = np.flatnonzero((begun != last.track) & tid_known[last.track])
    sent = np.flatnonzero((pid[begun] != pid[last.track]) & pid_known[last.track])
    fields = {THREAD: (moved, tid[last.track[moved]]), PROCESS: (sent, pid[last.track[sent]])}
    for key, column in last.fields.integers.items():
        before = first.fields.dense(key, count, 0)[has_end[column.rows]]
        differs = before != column.values
        fields[key] = (column.rows[differs].astype(np.int64), column.values[differs])
    for key, (places, values) in fields.items():
        if len(places):
            integers[AT_END + key] = _overlaid(None, has_end[places], values)
    return Args(integers, first.fields.rest)


def _numbers(ids: list[str]) -> tuple[Bool, Int64]:
    """Return which process or thread ids are numbers, and the numbers."""
    numbers = [int(text) if INTEGER.fullmatch(text) else None for text in ids]
    is_number = np.array([number is not None for number in numbers], np.bool_)
    return is_number, np.array([number or 0 for number in numbers], np.int64)


@dataclass(slots=True)
class _Group:
    """The tracks of one category of a process."""

    title: str
    tracks: list[int] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)  # of open ranges by track, outermost first
    owner: list[int] = field(default_factory=list)  # the operation on each track
    busy: list[tuple[int, int]] = field(default_factory=list)  # (end, track)
    free: list[int] = field(default_factory=list)

    def place(self, start_ns: int, end_ns: int, operation: int, mine: int | None) -> int:
        """Return the track of a range: inside its operation's, else one that is free."""
        if mine is not None and self.owner[mine] == operation:
            open_ends = self.ends[mine]
            while open_ends and open_ends[-1] <= start_ns:
                open_ends.pop()
            if open_ends and end_ns <= open_ends[-1]:
                open_ends.append(end_ns)
                return mine
        while self.busy and self.busy[0][0] <= start_ns:
            heapq.heappush(self.free, heapq.heappop(self.busy)[1])
        if self.free:
            place = heapq.heappop(self.free)
        elif len(self.ends) < _MOST_TRACKS:
            place = len(self.ends)
            self.ends.append([])
            self.owner.append(operation)
        else:
            return _MOST_TRACKS - 1
        self.ends[place] = [end_ns]
        self.owner[place] = operation
        heapq.heappush(self.busy, (end_ns, place))
        return place


def _placed(
    ranges: Slices, operation: Int64, captured: Captured
) -> tuple[Slices, tuple[Track, ...]]:
    """Move ranges to tracks of their own, on which those of one track nest."""
    tracks, strings = list(captured.tracks), captured.strings
    groups: dict[tuple[str, int], _Group] = {}
    at_work: dict[int, int] = {}  # the track index of each running operation
    numbers = np.zeros(len(ranges), np.uint32)
    order = np.lexsort((-ranges.duration_ns, ranges.start_ns))
    starts, ends = ranges.start_ns.tolist(), ranges.end_ns.tolist()
    categories, begun, operations = (
        ranges.category.tolist(), ranges.track.tolist(), operation.tolist()
    )  # fmt: skip
    for row in order.tolist():
        thread, which = tracks[begun[row]], operations[row]
        key = thread.pid, categories[row]
        if (group := groups.get(key)) is None:
            group = groups[key] = _Group(strings[categories[row]] or "async")
        place = group.place(starts[row], ends[row], which, at_work.get(which))
        at_work[which] = place
        if place == len(group.tracks):
            group.tracks.append(len(tracks))
            tracks.append(_track(thread, group.title, place))
        numbers[row] = group.tracks[place]
    return replace(ranges, track=numbers), tuple(tracks)


def _track(thread: Track, title: str, place: int) -> Track:
    number = f" {place + 1}" if place else ""
    return replace(
        thread,
        tid=f"async {title}{number}" if title != "async" else f"async{number}",
        thread_name=f"{title}{number} (async)" if title != "async" else f"async{number}",
        thread_sort=None,
        logical_id=-1,
    )


def async_marks(trace: Trace) -> tuple[Marks, tuple[Track, ...]]:
    """Return the begins and ends of asynchronous ranges in file order, and all tracks.

    They are on the threads that their file named, which are added if they are missing.
    """
    some = trace.slices.take(async_rows(trace.slices))
    integers = some.fields.integers
    at_end = {key[len(AT_END) :]: integers[key] for key in integers if key.startswith(AT_END)}
    own = {key: integers[key] for key in integers if key != LETTER and not key.startswith(AT_END)}
    overlaid = {
        key: _overlaid(own.get(key), column.rows.astype(np.int64), column.values)
        for key, column in at_end.items()
    }
    letters = some.fields.dense(LETTER, len(some), 0).astype(np.uint8)
    common = (some.category, some.name)
    first = Marks(letters, *common, some.start_ns, some.track, args=some.args)
    last = Marks(_letters_at_end(letters), *common, some.end_ns, some.track)
    tracks = list(trace.tracks)
    first, last = (
        _on_threads(marks, Args(fields, some.fields.rest), tracks)
        for marks, fields in ((first, own), (last, own | overlaid))
    )
    ended = np.flatnonzero(some.flags & SliceFlags.UNFINISHED == 0)
    both = Marks.concat([first, last.take(ended)])
    # At equal times: ends first, then begins, then ends of empty ranges.
    rank = np.concatenate((np.ones(len(some)), np.where(some.duration_ns[ended] > 0, 0, 2)))
    return both.take(np.lexsort((rank, both.time_ns))), tuple(tracks)


def _letters_at_end(letters: UInt8) -> UInt8:
    table = np.full(256, ord("e"), np.uint8)
    table[ord("S")] = ord("F")
    of_row: UInt8 = table[letters]
    return of_row


def _on_threads(marks: Marks, fields: Args, tracks: list[Track]) -> Marks:
    """Move marks to the threads that their fields name."""
    others = {k: column for k, column in fields.integers.items() if k not in {PROCESS, THREAD}}
    named = fields.integers.get(THREAD)
    track = marks.track.copy()
    if named is not None and len(named.rows):
        track_of = {(track.pid, track.tid): at for at, track in reversed(list(enumerate(tracks)))}
        elsewhere = np.zeros(len(marks), np.bool_)
        if PROCESS in fields.integers:
            elsewhere[fields.integers[PROCESS].rows] = True
        pid = fields.dense(PROCESS, len(marks), 0)
        columns = (track, elsewhere, pid)
        pairs = np.stack([*(ids[named.rows].astype(np.int64) for ids in columns), named.values])
        distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
        places = []
        for at, is_elsewhere, number, tid in distinct.T.tolist():
            key = str(number) if is_elsewhere else tracks[at].pid, str(tid)
            if key not in track_of:
                track_of[key] = len(tracks)
                tracks.append(Track(*key))
            places.append(track_of[key])
        track[named.rows] = np.array(places, np.uint32)[inverse.ravel()]
    return replace(marks, track=track, fields=Args(others, fields.rest))
