"""What a report tells: one file a section. A section fills its part of the payload."""
