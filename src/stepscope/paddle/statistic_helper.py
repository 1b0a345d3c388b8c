"""paddle.profiler.statistic_helper: Paddle's arithmetic of time ranges."""

from stepscope.paddle._paddles import names_of

__getattr__ = names_of("statistic_helper")
