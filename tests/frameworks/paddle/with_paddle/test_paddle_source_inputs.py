"""Shapes, types and flops of Paddle's eager operators."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from paddle_recording import args_of, paddle_or_skip, paddle_recorded, rows_of, trace_of

from recording import row_of
from stepscope.analysis.flops.count import flops_of

paddle = paddle_or_skip()
nn, functional = paddle.nn, paddle.nn.functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import Trace


def recorded(work: Callable[[], Any]) -> Trace:
    with paddle_recorded(shapes=True) as recorder:
        work()
    return trace_of(recorder)


def test_an_operator_has_the_shapes_and_types_it_was_called_with() -> None:
    x, y = paddle.ones([2, 13]), paddle.ones([5, 13])
    trace = recorded(lambda: paddle.matmul(x, y, transpose_y=True))
    assert args_of(trace, row_of(trace, "matmul dygraph")) == {
        "Input Dims": [[2, 13], [5, 13], []],
        "Input type": ["float32", "float32", "Scalar"],
        "Input names": ["", "", "transpose_y"],
        "Concrete Inputs": ["", "", "True"],
    }


def test_a_linear_layer_has_them_at_its_product() -> None:
    linear, x = nn.Linear(13, 5), paddle.ones([2, 13], "float32")
    trace = recorded(lambda: linear(x))
    assert args_of(trace, row_of(trace, "matmul dygraph"))["Input Dims"] == [[2, 13], [13, 5], [5]]
    assert args_of(trace, row_of(trace, "add dygraph")) == {}


def test_lists_numbers_and_other_types_are_told_apart() -> None:
    parts = [paddle.ones([2], "int64"), paddle.ones([3], "int64")]
    trace = recorded(lambda: (paddle.concat(parts), paddle.scale(parts[0], 1.0, 1.0)))
    concat = args_of(trace, row_of(trace, "concat dygraph"))
    assert concat["Input Dims"][0] == [[2], [3]]
    assert concat["Input type"][:2] == ["TensorList", "Scalar"]
    scale = args_of(trace, row_of(trace, "scale dygraph"))
    assert scale["Input type"][0] == "int64"
    assert scale["Concrete Inputs"][1:3] == ["1.0", "1.0"]


def test_calls_of_several_threads_stay_apart() -> None:
    def work(size: int) -> None:
        x = paddle.ones([size])
        for _ in range(20):
            paddle.exp(x)

    def both() -> None:
        threads = [threading.Thread(target=work, args=(size,)) for size in (3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    trace = recorded(both)
    shapes: dict[int, set[str]] = {}
    for row in rows_of(trace, "exp dygraph"):
        dims = args_of(trace, row)["Input Dims"]
        shapes.setdefault(int(trace.slices.track[row]), set()).add(str(dims))
    assert sorted(map(sorted, shapes.values())) == [["[[3]]"], ["[[4]]"]]


def test_signs_and_the_backward_pass_are_not_seen() -> None:
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    trace = recorded(lambda: (x + x).sum().backward())
    assert args_of(trace, row_of(trace, "add dygraph")) == {}
    assert args_of(trace, row_of(trace, "Global_AddGradNode")) == {}
    assert args_of(trace, row_of(trace, "sum dygraph"))["Input Dims"][0] == [2, 2]


def test_a_call_that_fails_leaves_no_shapes_to_the_next() -> None:
    x = paddle.ones([2, 3])

    def work() -> None:
        with pytest.raises(ValueError, match=r"matmul|[Dd]im"):
            paddle.matmul(x, x)
        _ = x + x

    trace = recorded(work)
    assert args_of(trace, row_of(trace, "add dygraph")) == {}


def test_without_the_option_nothing_is_replaced_and_with_it_all_is_restored() -> None:
    before = dict(vars(paddle._C_ops))
    with paddle_recorded():
        assert vars(paddle._C_ops) == before
    with paddle_recorded(shapes=True):
        assert paddle._C_ops.matmul is not before["matmul"]
        assert paddle._C_ops.run_program is before["run_program"]
    assert vars(paddle._C_ops) == before


# The numbers of the same operators of torch, by stepscope.analysis.flops.count.
FLOPS: dict[str, tuple[Callable[[], Any], int]] = {
    "linear": (lambda: functional.linear(ones(2, 13), ones(13, 5), ones(5)), 260),
    "matmul": (lambda: paddle.matmul(ones(2, 1, 3, 4), ones(5, 4, 6)), 1440),
    "matmul, turned": (lambda: paddle.matmul(ones(3, 4), ones(6, 4), transpose_y=True), 144),
    "matmul of vectors": (lambda: paddle.matmul(ones(4), ones(4)), 8),
    "addmm": (lambda: paddle.addmm(ones(2, 2), ones(2, 3), ones(3, 2)), 24),
    "bmm": (lambda: paddle.bmm(ones(2, 2, 3), ones(2, 3, 4)), 96),
    "conv1d": (lambda: functional.conv1d(ones(2, 3, 10), ones(4, 3, 3)), 1152),
    "conv2d": (lambda: functional.conv2d(ones(2, 3, 16, 16), ones(8, 3, 3, 3), padding=1), 221184),
    "conv2d, as large": (
        lambda: functional.conv2d(ones(2, 3, 16, 16), ones(8, 3, 3, 3), padding="SAME"),
        221184,
    ),
    "conv2d, in groups": (
        lambda: functional.conv2d(ones(2, 8, 8, 8), ones(8, 1, 3, 3), groups=8),
        10368,
    ),
    "conv3d": (lambda: functional.conv3d(ones(1, 1, 5, 5, 5), ones(2, 1, 3, 3, 3)), 2916),
    "conv2d_transpose": (
        lambda: functional.conv2d_transpose(ones(2, 8, 8, 8), ones(8, 4, 2, 2), stride=2),
        32768,
    ),
    "attention": (lambda: attention(ones(2, 5, 4, 8)), 6400 + 1000),  # the softmax counts here
    "layer_norm": (lambda: nn.LayerNorm(8)(ones(2, 8, 8, 8)), 8192),
    "group_norm": (lambda: nn.GroupNorm(2, 8)(ones(2, 8, 8, 8)), 8192),
    "softmax": (lambda: functional.softmax(ones(2, 4, 5, 5)), 1000),
    "gelu": (lambda: functional.gelu(ones(3)), 15),
    "max_pool2d": (lambda: functional.max_pool2d(ones(2, 8, 16, 16), 2), 4096),
    "avg_pool2d": (lambda: functional.avg_pool2d(ones(2, 8, 8, 8), 2), 1024),
    "adaptive_avg_pool2d": (lambda: functional.adaptive_avg_pool2d(ones(2, 8, 8, 8), 2), 1024),
    "multiply": (lambda: paddle.multiply(ones(3, 1), ones(4)), 12),
    "multiply of integers": (lambda: paddle.multiply(*[paddle.ones([3], "int32")] * 2), 0),
}


def ones(*shape: int) -> Any:
    return paddle.ones(list(shape))


def attention(x: Any) -> Any:
    return functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("name", FLOPS)
def test_operations_are_counted_as_torchs_are(name: str) -> None:
    work, expected = FLOPS[name]
    assert int(flops_of(recorded(work)).sum()) == expected


def test_a_network_counts_as_the_same_one_of_torch_does() -> None:
    network = nn.Sequential(
        nn.Conv2D(3, 8, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(8),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    x, labels = ones(2, 3, 16, 16), paddle.zeros([2], "int64")
    trace = recorded(lambda: functional.cross_entropy(network(x), labels))
    counts = {trace.name_of(row): int(count) for row, count in enumerate(flops_of(trace)) if count}
    assert counts == {
        "conv2d dygraph": 221184,
        "batch_norm dygraph": 32768,
        "relu dygraph": 4096,
        "pool2d dygraph": 4096,
        "matmul dygraph": 20480,
        "cross_entropy_with_softmax dygraph": 104,
        "mean_all dygraph": 2,  # torch takes the mean within the loss
    }
