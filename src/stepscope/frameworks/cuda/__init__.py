"""CUDA devices, through CUPTI: kernels, copies and the calls behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.record.source import SOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.source import Source


@SOURCES.register
def _sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.cuda.counter_source import HardwareCounters
    from stepscope.frameworks.cuda.power import Power
    from stepscope.frameworks.cuda.record_options import AskedRecords
    from stepscope.frameworks.cuda.source import CudaActivity

    return (AskedRecords, CudaActivity, HardwareCounters, Power)
