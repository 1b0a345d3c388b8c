"""Paddle: what is recorded of it, paddle.profiler's dialect, views and files."""
