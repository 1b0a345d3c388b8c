"""Views over a recording's columns for torch.profiler's own tools."""
