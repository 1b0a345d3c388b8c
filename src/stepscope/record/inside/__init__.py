"""What runs inside the program's process while it is recorded, and imports no more than needed."""
