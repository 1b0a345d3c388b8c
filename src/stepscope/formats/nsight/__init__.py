"""NVIDIA's files: what Nsight Systems exports as SQLite, and Nsight Compute as CSV."""
