"""Problems of a program that its trace shows: one small function a problem, one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.findings.compilation import graph_breaks, recompilations
from stepscope.analysis.findings.device import (
    float32_products,
    host_too_slow,
    tiny_kernels,
    waiting_copies,
)
from stepscope.analysis.findings.facts import Facts
from stepscope.analysis.findings.loading import slow_loading
from stepscope.analysis.findings.memory import fragmentation, memory_near_limit
from stepscope.analysis.findings.model import Detector, Finding, Severity
from stepscope.analysis.findings.optimizer import gradients_filled, unfused_optimizer
from stepscope.analysis.findings.pauses import garbage_collection, slow_step

if TYPE_CHECKING:
    from stepscope.trace.model import Trace

__all__ = ["DETECTORS", "Finding", "Severity", "find_problems"]

DETECTORS: tuple[Detector, ...] = (
    slow_loading,
    host_too_slow,
    waiting_copies,
    tiny_kernels,
    float32_products,
    gradients_filled,
    unfused_optimizer,
    recompilations,
    graph_breaks,
    memory_near_limit,
    fragmentation,
    garbage_collection,
    slow_step,
)


def find_problems(trace: Trace) -> list[Finding]:
    """Return what is wrong with the program that was recorded, the worst first."""
    facts = Facts(trace)
    found = [finding for detect in DETECTORS if (finding := detect(facts)) is not None]
    severities = list(Severity)
    return sorted(found, key=lambda each: (severities.index(each.severity), -each.share))
