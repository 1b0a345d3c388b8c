"""Work that need not be done, by what operators read and make."""
