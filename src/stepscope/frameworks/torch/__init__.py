"""PyTorch: what is recorded of it, the bridge, torch.profiler's dialect, formulas for flops."""
