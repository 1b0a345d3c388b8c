"""Floating-point operations, counted from the shapes of operators' inputs."""
