"""A pytest plugin: limits for tests, and a fixture that records.

    @pytest.mark.stepscope(max_ops=200, max_sync=0, max_peak_memory="200MB", no_regression=True)
    def test_step(model, batch):
        train_step(model, batch)

A test without the mark and the fixture costs nothing: nothing else of Stepscope is imported.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepscope.gate.limits import Limits
    from stepscope.trace.model import Trace

_MARK = "stepscope"
_FIXTURE = "stepscope_trace"
_UPDATE = "--stepscope-update"
_FOLDER = "stepscope_baselines"
_DEFAULT_FOLDER = "__stepscope__"  # beside the file of the test
_KEPT = "stepscope baseline"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stepscope")
    group.addoption(
        _UPDATE,
        action="store_true",
        help="store what marked tests do now as their new baselines, replacing the old ones",
    )
    parser.addini(
        _FOLDER,
        "the folder of the baselines of tests marked with no_regression, from the root folder "
        f"(default: {_DEFAULT_FOLDER} beside each test file)",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "stepscope(max_ops=N, max_sync=N, max_peak_memory=SIZE, no_regression=True, ...): record "
        "the test, and fail it when it does more than this, or more than its baseline",
    )
    if not config.option.help:
        config.pluginmanager.register(_BaselineReporter(), "stepscope-told")


class StepscopeTrace:
    """The recording of a test: the fixture ``stepscope_trace``.

    ``with stepscope_trace: ...`` records a part of the test, and the mark's limits apply to that
    part; ``with stepscope_trace(record_shapes=True)`` takes the options of ``stepscope.profile``.
    Without a block, the whole test is recorded. It stands for its Trace:
    ``stepscope_trace.slices``, ``len(stepscope_trace)``, ``stepscope_trace.count(name)``.
    """

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        self._test: Any = None  # records all of it
        self._block: Any = None  # records a part
        self._trace: Trace | None = None

    def __call__(self, **options: Any) -> StepscopeTrace:
        """Record the next block with these options of ``stepscope.profile``."""
        self._options = options
        return self

    def __enter__(self) -> StepscopeTrace:
        if self._block is not None:
            raise RuntimeError("stepscope_trace is recording already: end its block first")
        self._end_test()  # it is the block that counts, and not every collector records twice
        self._block = _profiler(self._options)
        self._block.start()
        return self

    def __exit__(self, *_: object) -> None:
        block, self._block = self._block, None
        block.stop()
        self._trace = block.trace

    @property
    def trace(self) -> Trace:
        """Return the recording of the last block, else of the test so far."""
        if self._trace is None:
            self._end_test()
        if self._trace is None:
            raise RuntimeError("nothing was recorded yet: use `with stepscope_trace:`")
        return self._trace

    def count(self, name: str) -> int:
        """Return the number of calls of an operator, a kernel or a range."""
        return sum(its_name == name for its_name in self.trace.names())

    def quantity(self, name: str) -> float | None:
        """Return a quantity of the trace: ``ops``, ``synchronisations``, ..."""
        from stepscope.analysis.quantities import quantities, quantity_names
        from stepscope.gate.rules import name_of_quantity

        return quantities(self.trace)[name_of_quantity(name, quantity_names(), "quantity")].total

    def __len__(self) -> int:
        return len(self.trace)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.trace, name)

    def _start_test(self, options: dict[str, Any]) -> None:
        self._test = _profiler(options)
        self._test.start()

    def _end_test(self) -> None:
        test, self._test = self._test, None
        if test is not None:
            test.stop()
            if self._trace is None:
                self._trace = test.trace


@pytest.fixture
def stepscope_trace(request: pytest.FixtureRequest) -> StepscopeTrace:
    """Record what the test does: see StepscopeTrace."""
    return _recorded(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Check the mark's arguments before the test is set up."""
    if item.get_closest_marker(_MARK) is not None:
        _limits(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record a marked test, and judge the recording if the test passed."""
    is_marked = item.get_closest_marker(_MARK) is not None
    if not is_marked and _FIXTURE not in getattr(item, "fixturenames", ()):
        return (yield)
    recorded = _recorded(item)
    limits = _limits(item) if is_marked else None
    recorded._start_test(_options(limits))
    try:
        result = yield
    finally:
        recorded._end_test()
    if limits is not None:
        _judge(item, recorded.trace, limits)
    return result


def _recorded(item: Any) -> StepscopeTrace:
    made: StepscopeTrace | None = item.stash.get(_STASH, None)
    if made is None:
        made = item.stash[_STASH] = StepscopeTrace()
    return made


_STASH = pytest.StashKey[StepscopeTrace]()


def _limits(item: pytest.Item) -> Limits:
    """Return a test's limits; the nearest of several marks wins."""
    from stepscope.errors import StepscopeError
    from stepscope.gate.limits import limits_of

    given: dict[str, Any] = {}
    try:
        for mark in reversed(list(item.iter_markers(_MARK))):
            if mark.args:
                raise StepscopeError(
                    f"@pytest.mark.stepscope({mark.args[0]!r}): name its arguments, max_ops=100"
                )
            given |= mark.kwargs
        return limits_of(given, "@pytest.mark.stepscope")
    except StepscopeError as error:
        message = str(error)  # failing below: pytest would show both
    pytest.fail(message, pytrace=False)


def _options(limits: Limits | None) -> dict[str, Any]:
    if limits is None:
        return {}
    return {"record_shapes": limits.need_shapes, "profile_memory": limits.need_memory}


def _profiler(options: dict[str, Any]) -> Any:
    from stepscope.frameworks.torch.dialect.profile import profile
    from stepscope.record.options import StackMode

    return profile(**{"with_stack": StackMode.OPERATORS, **options})


def _judge(item: pytest.Item, trace: Trace, limits: Limits) -> None:
    from stepscope.errors import StepscopeError
    from stepscope.gate.limits import broken, load_baseline, save_baseline

    path = _baseline_of(item)
    reasons, baseline = [], None
    try:
        baseline = (
            load_baseline(path) if limits.grow and not item.config.getoption(_UPDATE) else None
        )
        reasons = list(broken(trace, limits, baseline))
        if limits.grow and baseline is None and not reasons:
            save_baseline(path, trace, limits)
            item.user_properties.append((_KEPT, str(path)))
    except (StepscopeError, OSError) as error:
        reasons.append(str(error))
    if reasons:
        how = f"\npytest {_UPDATE} keeps it as the new baseline ({path})" if baseline else ""
        pytest.fail("stepscope: " + "\nstepscope: ".join(reasons) + how, pytrace=False)


def _baseline_of(item: pytest.Item) -> Path:
    """Return the path of a test's baseline: one file each, so that workers do not collide."""
    from stepscope.formats.file_names import file_word

    file, _, name = item.nodeid.partition("::")
    folder = str(item.config.getini(_FOLDER))
    if folder:
        place = item.config.rootpath / folder / Path(file).with_suffix("")
    else:
        place = item.path.parent / _DEFAULT_FOLDER / item.path.stem
    return place / f"{file_word(name)}.json"


class _BaselineReporter:
    """Lists new baselines at the end; workers report theirs to the main process."""

    def __init__(self) -> None:
        self._new_baselines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the baseline that a test saved."""
        if report.when == "call":
            self._new_baselines += [
                str(path) for name, path in report.user_properties if name == _KEPT
            ]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the files, which belong into the repository."""
        if self._new_baselines:
            _tell(terminalreporter, self._new_baselines)


def _tell(terminal: Any, files: Sequence[str]) -> None:
    terminal.section("stepscope", sep="-", blue=True)
    word, it = ("baseline is", "it") if len(files) == 1 else ("baselines are", "them")
    terminal.line(
        f"{len(files)} {word} new; commit {it}, so that later runs are compared with {it}:"
    )
    for path in files[:10]:
        terminal.line(f"  {path}")
    if len(files) > 10:
        terminal.line(f"  and {len(files) - 10} more")
