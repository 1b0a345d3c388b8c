"""What a process notes of itself in its stream, by name."""

FACTS = "facts"  # what it is: record/inside/facts.py
THREADS = "threads"  # the names of its threads by the system's number
SOURCES = "sources"  # what its sources say of themselves: fields of a TraceInfo, and the job
PROCESS = "process"  # what people call it
PATHS = "paths"  # the prefixes of file names that say nothing
FAILURES = "failures"  # exceptions that no thread but the main one has caught: lines
NOTICES = "notices"  # lines for the user
END = "end"  # that it ended in order, and what ended it early
