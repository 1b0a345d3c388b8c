"""Rewriting of profiler code between torch.profiler, paddle.profiler and Stepscope."""
