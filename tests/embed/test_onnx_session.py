"""Products in int8 are exact on each processor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ragkit.embed.onnx_session import OnnxSession

TOKENS, WIDTH = 64, 32


def test_the_largest_sums_of_a_product_in_int8_are_not_clipped(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.full((TOKENS, WIDTH), 127, np.int8), "weights")
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["inputs"], to=TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["inputs", "weights"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["rows"], to=TensorProto.FLOAT),
    ]
    given = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", TOKENS])
    output = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["texts", WIDTH])
    graph = helper.make_graph(nodes, "product", [given], [output], [weights])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    rows = OnnxSession(path).run([[255] * TOKENS] * 2)
    np.testing.assert_array_equal(rows, np.full((2, WIDTH), 255 * 127 * TOKENS, np.float32))
