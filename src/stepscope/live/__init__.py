"""Recordings of programs that keep running: captures, triggers, and access from outside."""
