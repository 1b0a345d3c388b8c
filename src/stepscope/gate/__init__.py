"""Keeps a program as fast as it was: rules, baselines, and judging a run by them."""
