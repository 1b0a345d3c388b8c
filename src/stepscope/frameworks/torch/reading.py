"""Registers what readers need for PyTorch: formulas, landmarks, advice."""

from __future__ import annotations

from stepscope.analysis.base.landmarks import LANDMARKS
from stepscope.analysis.base.remedies import ADVICE
from stepscope.analysis.flops.formulas import FORMULAS
from stepscope.lazy import loader

FORMULAS.register(loader("stepscope.frameworks.torch.flops:FORMULAS"))
LANDMARKS.register(loader("stepscope.frameworks.torch.landmarks:LANDMARKS"))
ADVICE.register(loader("stepscope.frameworks.torch.advice:ADVICE"))
ADVICE.register(loader("stepscope.frameworks.torch.advice:TRAINER"))
