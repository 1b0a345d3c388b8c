"""CUDA devices, through CUPTI: kernels, copies and the calls behind them."""
