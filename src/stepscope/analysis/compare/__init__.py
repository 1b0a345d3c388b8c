"""Two sides of a comparison, before and after: is there a difference, and what is it made of."""
