"""Keeps a program as fast as it was: rules, baselines, and the judgement of a run by them."""
