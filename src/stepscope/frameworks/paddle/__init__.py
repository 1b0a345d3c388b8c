"""Paddle: its sources, paddle.profiler's dialect, views and files."""
