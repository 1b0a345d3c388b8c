"""PyTorch: what is recorded of it, the bridge, torch.profiler's dialect, formulas for flops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.flops.formulas import FORMULAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.analysis.flops.inputs import Formula


@FORMULAS.register
def _formulas() -> Mapping[str, Formula]:
    from stepscope.frameworks.torch.flops import FORMULAS as FOR_TORCH

    return FOR_TORCH
