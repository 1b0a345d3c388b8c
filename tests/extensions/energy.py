"""A measure: the energy that a kernel used, in nJ."""

from __future__ import annotations

from stepscope.trace.measures import Measure, add_measure
from stepscope.units import Unit

JOULES = Unit("energy", "nJ", ((1e9, "J"), (1e6, "mJ"), (1e3, "µJ"), (1, "nJ")))
ENERGY = Measure("energy", "Energy", JOULES, "what the device used for it")

add_measure(ENERGY)
