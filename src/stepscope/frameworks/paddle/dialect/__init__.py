"""paddle.profiler's vocabulary over a Session."""
