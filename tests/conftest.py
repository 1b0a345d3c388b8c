"""What every test stands on."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Started in the background, a program ignores Ctrl-C; tests of it need Python's own handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

with contextlib.suppress(ImportError):  # the tests that need no framework do without it
    from hypothesis import HealthCheck, settings

    # How long an example takes says how busy the machine is.
    settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any machine")

pytest_plugins = ["report_page"]  # reports in a browser

LARGE_BYTES = 500_000  # tests of larger samples belong to make test-slow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        files = (value for value in params.values() if isinstance(value, Path) and value.is_file())
        if any(file.stat().st_size > LARGE_BYTES for file in files):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def bridge() -> None:
    """Build the bridge to torch before any test looks at what is printed."""
    with contextlib.suppress(ImportError):
        import torch

        from stepscope.frameworks.torch.bridge.build import BridgeUnavailableError
        from stepscope.frameworks.torch.bridge.load import load_library

        with contextlib.suppress(BridgeUnavailableError):
            load_library(torch)


@pytest.fixture(autouse=True)
def no_notice_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see its notices, which are shown once a process, whatever ran before it."""
    from stepscope import notices

    monkeypatch.setattr(notices, "_shown", set())


@pytest.fixture(params=["internal", "public"])
def way_to_the_frames(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to the frames of Python must lead to the same ones."""
    from stepscope import _native

    only_public = request.param == "public"
    if _native.use_public_frames(only_public) == only_public:
        pytest.skip("this interpreter's structures are not known")
    yield
    _native.use_public_frames(False)
