"""Programs that print their own truth, and a runner that compares it with the answer."""
