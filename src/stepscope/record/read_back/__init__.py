"""What processes have left, read back: whose it is, and the trace that is made of it."""
