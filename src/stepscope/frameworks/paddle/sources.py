"""The sources of Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.record.source import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.record.source import Source


@with_options()
def paddle_sources() -> Sequence[type[Source]]:
    from stepscope.frameworks.paddle.collectives import PaddleCollectives
    from stepscope.frameworks.paddle.loader import PaddleLoaderRanges, PaddleLoaderWorkers
    from stepscope.frameworks.paddle.modules import PaddleLayers, PaddleModelCalls
    from stepscope.frameworks.paddle.paddle_source import PaddleSource

    loaders = PaddleLoaderRanges, PaddleLoaderWorkers
    return PaddleSource, PaddleModelCalls, PaddleLayers, *loaders, PaddleCollectives
