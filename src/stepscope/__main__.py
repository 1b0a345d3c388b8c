"""``python -m stepscope`` is the ``stepscope`` command."""

import signal
import sys

if __name__ == "__main__":
    # Until there is something to clean up, Ctrl-C kills us at once, as SIGTERM does.
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from stepscope.cli import main

    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    sys.exit(main())
