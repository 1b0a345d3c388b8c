"""The Trace: the one noun in the middle. Sources and readers make it, everything else reads it."""
