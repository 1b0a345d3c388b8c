"""PyTorch: its sources, the bridge, torch.profiler's dialect, FLOP formulas."""
