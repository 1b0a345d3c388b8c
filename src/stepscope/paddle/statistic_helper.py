"""paddle.profiler.statistic_helper: Paddle's arithmetic of time ranges."""

from stepscope.frameworks.paddle.dialect.paddles_names import names_of

__getattr__ = names_of("statistic_helper")
