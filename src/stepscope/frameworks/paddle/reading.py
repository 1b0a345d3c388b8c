"""Registers what readers need for Paddle: formulas, landmarks, advice, file formats."""

from __future__ import annotations

from pathlib import Path

from stepscope.analysis.base.landmarks import LANDMARKS
from stepscope.analysis.base.remedies import ADVICE
from stepscope.analysis.flops.formulas import FORMULAS
from stepscope.formats.base.registry import FORMATS, Format
from stepscope.formats.chrome import DIALECTS, ChromeDialect
from stepscope.lazy import loader

FORMULAS.register(loader("stepscope.frameworks.paddle.flops:FORMULAS"))
LANDMARKS.register(loader("stepscope.frameworks.paddle.landmarks:LANDMARKS"))
ADVICE.register(loader("stepscope.frameworks.paddle.advice:ADVICE"))


@DIALECTS.register
def _chrome_dialect() -> ChromeDialect:
    from stepscope.frameworks.paddle.files.read_json import PaddleJson

    return PaddleJson()


def _is_pb(_path: Path, head: bytes) -> bool:
    from stepscope.frameworks.paddle.files.read_pb import is_paddle_pb

    return is_paddle_pb(head)


FORMATS.register(
    Format(
        "Paddle's Chrome trace",
        (".paddle_trace.json", ".paddle_trace.json.gz"),
        writer=loader("stepscope.frameworks.paddle.files.write_json:export_paddle_json"),
    )
)
FORMATS.register(
    Format(
        "Paddle's protobuf",
        (".pb", ".pb.gz"),
        _is_pb,
        loader("stepscope.frameworks.paddle.files.read_pb:read_paddle_pb"),
        loader("stepscope.frameworks.paddle.files.write_pb:export_paddle_pb"),
    )
)
