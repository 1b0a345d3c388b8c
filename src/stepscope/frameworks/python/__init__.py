"""The Python program itself: its calls, garbage collections, annotations and child processes."""
