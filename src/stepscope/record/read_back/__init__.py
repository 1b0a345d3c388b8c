"""Reads the recordings of processes that have ended, and makes one trace of them."""
