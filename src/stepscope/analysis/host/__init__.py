"""What the host did: operators, calls, modules, stacks and source lines."""
