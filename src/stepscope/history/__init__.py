"""Many runs of a program over its commits: what each took, and where that changed."""
