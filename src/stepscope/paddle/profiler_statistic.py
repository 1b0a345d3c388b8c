"""paddle.profiler.profiler_statistic: Paddle's statistics, which take our results, too."""

from stepscope.frameworks.paddle.views.views import SortedKeys
from stepscope.paddle._paddles import names_of

__all__ = ["SortedKeys"]

__getattr__ = names_of("profiler_statistic")
