"""Run ONNX models on the CPU: the shipped one, and graphs of folders of a user's. Adapts the package `onnxruntime`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from ragkit.embed.base import Rows
from ragkit.embed.onnx_folder import OnnxFolder
from ragkit.errors import InvalidOption, KnowledgeBaseDamaged

ort.disable_telemetry_events()

LOAD_ERRORS = (
    ort_errors.Fail,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)
"""Errors of onnxruntime for an invalid or missing model or unsupported operators; they have no common base class."""
RUN_ERRORS = (*LOAD_ERRORS, ort_errors.InvalidArgument)
"""Errors of onnxruntime for a model of any origin, and for inputs that do not fit it."""

Output = NDArray[np.floating]
Ids = list[int]

_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxSession:
    """A loaded model. Thread-safe; each call computes on the calling thread."""

    def __init__(self, path: Path, weights: Mapping[str, NDArray[np.generic]] = MappingProxyType({})) -> None:
        """Load a model, with the weights that its graph names and does not hold. Raises KnowledgeBaseDamaged."""
        options = ort.SessionOptions()
        values = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)) for value in weights.values()]
        options.add_external_initializers(list(weights), values)
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except LOAD_ERRORS as error:
            reason = f"cannot be loaded by onnxruntime {ort.__version__}"
            raise KnowledgeBaseDamaged(str(path), reason, "`pip install --upgrade onnxruntime`") from error

    def run(self, ids: Sequence[Sequence[int]]) -> Rows:
        """Token ids of texts of equal length, (texts, tokens) -> (texts, dimension)."""
        return self.compute("input_ids", np.array(ids, np.int64))

    def compute(self, name: str, values: NDArray[np.generic]) -> Rows:
        """The input of this name -> (texts, dimension)."""
        (rows,) = self._session.run(["rows"], {name: values})
        return np.asarray(rows, np.float32)


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
