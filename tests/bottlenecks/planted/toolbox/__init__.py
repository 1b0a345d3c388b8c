"""What a team shares between its programs."""
