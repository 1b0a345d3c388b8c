"""Streaming: what a program records outlives it, whatever ends it. See ``docs/streaming.md``."""
