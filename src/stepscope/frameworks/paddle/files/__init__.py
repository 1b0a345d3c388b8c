"""Paddle's own trace files: Chrome JSON and protobuf, read and written."""
