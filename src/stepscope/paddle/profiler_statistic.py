"""paddle.profiler.profiler_statistic: Paddle's statistics, which take our results, too."""

from stepscope.frameworks.paddle.dialect.paddles_names import names_of
from stepscope.frameworks.paddle.views.summary_tables import SortedKeys

__all__ = ["SortedKeys"]

__getattr__ = names_of("profiler_statistic")
