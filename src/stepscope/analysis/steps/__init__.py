"""Steps: where they begin and end, and where their time goes."""
