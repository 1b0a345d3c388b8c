"""Perfetto's traces (``.pftrace``), read and written."""
