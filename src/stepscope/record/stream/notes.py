"""What a process notes of itself in its stream, by name."""

FACTS = "facts"  # see record/facts.py
THREADS = "threads"  # thread names by thread id
SOURCES = "sources"  # what its sources describe: fields of a TraceInfo, and the job
PROCESS = "process"  # its name for users
PATHS = "paths"  # prefixes to cut from file names
FAILURES = "failures"  # exceptions that ended threads other than the main one
NOTICES = "notices"  # lines for the user
END = "end"  # an end in order, and the error that caused an early one
