"""Memory: who allocated it, what it held, and when most of it was in use."""
