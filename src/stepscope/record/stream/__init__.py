"""Where a process leaves what it records, which so outlives it. See ``docs/streaming.md``."""
