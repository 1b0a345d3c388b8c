"""The traces of a folder in the browser: a small server for one person, on this machine only."""
