"""The process that reduces ranks for its parent: paths come in, summaries go out."""

from __future__ import annotations

import gc
import os
import pickle
import sys

from stepscope.job.summary import summarize


def serve() -> None:
    """Answer until the parent closes the pipe."""
    gc.freeze()  # what is imported stays: no collection needs to look at it
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody else's words among them
    while True:
        try:
            path = pickle.load(sys.stdin.buffer)
        except (EOFError, KeyboardInterrupt):
            return
        summary = summarize(path)
        try:
            pickle.dump(summary, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()
        except BrokenPipeError:  # the parent has ended
            os._exit(1)
