"""Recording a job: the processes that a program starts, and which of them are ranks.

``order`` is what `stepscope run` tells them all, ``children`` how they are told, ``member`` what
one of them does, ``folder`` where the traces go; ``start/`` is put into the path of programs that
are started, and runs before them.
"""
