"""Run the graph of a model folder of a user's. Adapts the package `onnxruntime`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ragkit.embed.onnx_folder import OnnxFolder
from ragkit.embed.onnx_session import RUN_ERRORS
from ragkit.errors import InvalidOption

Output = NDArray[np.floating]
Ids = list[int]

_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxGraph:
    """A loaded graph. Thread-safe; each call computes on the calling thread."""

    def __init__(self, folder: OnnxFolder, option: str) -> None:
        """Raises InvalidOption if the graph cannot be loaded, or wants inputs that texts do not have."""
        self._path, self._option = str(folder.graph), option
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = ort.InferenceSession(self._path, options, providers=["CPUExecutionProvider"])
        except RUN_ERRORS as error:
            reason = str(error).partition("\n")[0][:200]
            raise InvalidOption(option, self._path, f"a graph that onnxruntime can load ({reason})") from error
        self._types = {item.name: _INTEGERS.get(item.type) for item in self._session.get_inputs()}
        known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        unknown = sorted(name for name, dtype in self._types.items() if name not in known or dtype is None)
        if unknown or "input_ids" not in self._types:
            inputs = ", ".join(f"{item.name} ({item.type})" for item in self._session.get_inputs())
            raise InvalidOption(option, self._path, f"a graph over token ids; this one has the inputs {inputs}")
        names = [item.name for item in self._session.get_outputs()]
        preferred = ("sentence_embedding", "logits", "last_hidden_state", "token_embeddings")
        self._output = next((name for name in preferred if name in names), names[0])

    def run(self, ids: Sequence[Ids], types: Sequence[Ids] | None = None) -> Output:
        """The output for texts of equal length: (texts, tokens) -> (texts, ...). Raises InvalidOption."""
        array = np.array(ids, np.int64)
        values = {
            "input_ids": array,
            "attention_mask": np.ones_like(array),
            "token_type_ids": np.zeros_like(array) if types is None else np.array(types, np.int64),
            "position_ids": np.broadcast_to(np.arange(array.shape[1]), array.shape),
        }
        inputs = {name: np.ascontiguousarray(values[name], dtype) for name, dtype in self._types.items()}
        try:
            (output,) = self._session.run([self._output], inputs)
        except RUN_ERRORS as error:
            reason = str(error).partition("\n")[0][:200]
            expected = f"a graph that fits its tokenizer and its limit of tokens ({reason})"
            raise InvalidOption(self._option, self._path, expected) from error
        result: Output = np.asarray(output)
        if result.shape[:1] != (len(ids),) or not np.issubdtype(result.dtype, np.floating):
            expected = f"a graph with one vector for each text or token; {self._output} has the shape {result.shape}"
            raise InvalidOption(self._option, self._path, expected)
        if not np.isfinite(result).all():
            raise InvalidOption(self._option, self._path, f"a graph with finite numbers; {self._output} has others")
        return result
