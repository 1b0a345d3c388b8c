"""What the sections and pages of a report share: the payload, and how it is cut to size."""
