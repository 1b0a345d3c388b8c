"""Tables as text."""
