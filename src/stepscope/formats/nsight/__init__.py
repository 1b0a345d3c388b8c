"""NVIDIA's files: the SQLite export of Nsight Systems, and the CSV of Nsight Compute."""
