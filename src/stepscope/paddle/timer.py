"""paddle.profiler.timer: Paddle's timer for the whole process; ours belong to profilers."""

from stepscope.frameworks.paddle.dialect.paddles_names import names_of

__getattr__ = names_of("timer")
