"""What the verbs share: parsing, reading traces, saving them, what the terminal shows."""
