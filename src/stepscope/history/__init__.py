"""Many runs of a program over its commits: their figures, and where these changed."""
