"""The Python side of the recorder: windows over the native buffers, and their limits."""

from stepscope.record.limits import Keep, MemoryLimit
from stepscope.record.window import Window

__all__ = ["Keep", "MemoryLimit", "Window"]
