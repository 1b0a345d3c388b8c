"""These tests need an NVIDIA GPU and PyTorch with CUDA: ``make test-gpu`` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def _reason() -> str:
    from stepscope.frameworks.cuda.activity import cuda_available

    if not cuda_available():
        return "no CUDA device, or no CUPTI"
    torch = pytest.importorskip("torch")
    return "" if torch.cuda.is_available() else "this torch has no CUDA"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    if ours and (reason := _reason()):
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=reason))
