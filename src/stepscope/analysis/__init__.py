"""Analyses: pure functions that read a Trace and return tables of columns."""
