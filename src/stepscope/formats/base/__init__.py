"""What several formats share: the registry, files that are read and written, compressed or not."""
