"""Recording: sources, what they write into, and the sessions that run them."""
