"""Changes to a program that may make it faster, and the trial that measures each of them."""
