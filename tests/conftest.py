"""What every test stands on."""

from __future__ import annotations

import contextlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def bridge() -> None:
    """Build the bridge to torch before any test looks at what is printed."""
    with contextlib.suppress(ImportError):
        import torch

        from stepscope.sources.bridge_build import BridgeUnavailableError, bridge_path

        with contextlib.suppress(BridgeUnavailableError):
            bridge_path(torch)
