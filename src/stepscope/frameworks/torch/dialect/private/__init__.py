"""What torch.profiler's own tools read of a recording: views over its columns."""
