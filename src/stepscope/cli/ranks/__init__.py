"""Traces of a job: ``folder`` is where those of its ranks lie, ``launch`` how a run saves them."""
