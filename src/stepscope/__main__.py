"""``python -m stepscope`` is the ``stepscope`` command."""

import sys

from stepscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
