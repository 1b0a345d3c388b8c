"""The sections of a report, one file each. A section fills its part of the payload."""
