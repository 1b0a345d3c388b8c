"""Where in the code something happened: stacks, lines of the user, source files."""
