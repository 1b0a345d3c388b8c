"""torch.profiler's vocabulary over a Session."""
