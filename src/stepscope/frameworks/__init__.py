"""The supported frameworks: each one's ``sources`` record it, its ``reading`` reads recordings."""
