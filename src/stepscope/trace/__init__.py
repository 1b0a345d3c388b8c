"""The Trace, the central data model: sources and readers build it, everything else reads it."""
