"""What reading recordings of PyTorch takes: formulas, landmarks, advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.flops.formulas import FORMULAS
from stepscope.analysis.host.landmarks import LANDMARKS
from stepscope.analysis.remedies import ADVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.analysis.flops.inputs import Formula
    from stepscope.analysis.host.landmarks import Landmarks
    from stepscope.analysis.remedies import Advice


@FORMULAS.register
def _formulas() -> Mapping[str, Formula]:
    from stepscope.frameworks.torch.flops import FORMULAS as FOR_TORCH

    return FOR_TORCH


@LANDMARKS.register
def _landmarks() -> Landmarks:
    from stepscope.frameworks.torch.landmarks import LANDMARKS as OF_TORCH

    return OF_TORCH


@ADVICE.register
def _advice() -> Advice:
    from stepscope.frameworks.torch.advice import ADVICE as FOR_TORCH

    return FOR_TORCH
