"""The work of devices, and the gaps between it."""
