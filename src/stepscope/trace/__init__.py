"""The Trace, the central data model: sources and readers make it, everything else reads it."""
