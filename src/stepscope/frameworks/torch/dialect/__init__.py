"""torch.profiler's API on top of a Session."""
