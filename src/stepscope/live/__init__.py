"""Recordings of programs that go on: captures, triggers, and the way in from outside."""
