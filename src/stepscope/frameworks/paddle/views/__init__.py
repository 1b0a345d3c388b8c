"""Paddle's summary: its views as tables and as text."""
