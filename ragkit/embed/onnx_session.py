"""Run an ONNX model on the CPU: token ids -> vectors. Adapts the package `onnxruntime`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from ragkit.embed.base import Rows
from ragkit.errors import KnowledgeBaseDamaged

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


class OnnxSession:
    """A loaded model. Thread-safe; each call computes on the calling thread."""

    def __init__(self, path: Path) -> None:
        """Load a model. Raises KnowledgeBaseDamaged."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except LOAD_ERRORS as error:
            reason = f"cannot be loaded by onnxruntime {ort.__version__}"
            raise KnowledgeBaseDamaged(str(path), reason, "`pip install --upgrade onnxruntime`") from error

    def run(self, ids: Sequence[Sequence[int]]) -> Rows:
        """Token ids of texts of equal length, (texts, tokens) -> (texts, dimension)."""
        (rows,) = self._session.run(["rows"], {"input_ids": np.array(ids, np.int64)})
        return np.asarray(rows, np.float32)
