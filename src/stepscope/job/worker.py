"""The process that reduces ranks for its parent: it receives paths and sends summaries."""

from __future__ import annotations

import gc
import json
import os
import sys

from stepscope.job.summary import summarize
from stepscope.trace.plain import packed


def serve() -> None:
    """Answer until the parent closes the pipe."""
    gc.freeze()  # imported modules stay, so no collection needs to visit them
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print, too
    try:
        for line in sys.stdin.buffer:
            data = packed(summarize(json.loads(line)))
            answers.write(b"%d\n" % len(data) + data)
            answers.flush()
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # the parent has ended
        os._exit(1)
