"""What `stepscope run` does: it starts a command, waits for its end, and shows what it recorded."""
