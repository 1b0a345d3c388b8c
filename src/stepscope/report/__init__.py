"""The report: a trace as one HTML file that opens from disk, offline, in any browser."""
