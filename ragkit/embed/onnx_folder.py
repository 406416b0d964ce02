"""Read the folder of an exported model: its graph, tokenizer, pooling, prompts and limits.

The layout is that of the Hugging Face hub and of sentence-transformers: `config.json`, `tokenizer.json`,
`modules.json`, `1_Pooling/config.json`, `config_sentence_transformers.json`, `sentence_bert_config.json`, and graphs as
`*.onnx` in the folder or in `onnx/`. Nothing is downloaded, and no code of a model is executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption
from ragkit.records import JSON

Pooling = Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""How the vectors of tokens become one; the names of sentence-transformers."""
POOLINGS: tuple[Pooling, ...] = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
"""In the order in which sentence-transformers joins them when a model has several."""
MODELS_VARIABLE = "RAGKIT_MODELS"
"""Environment variable with folders of models, separated like PATH."""
DEFAULT_MAX_TOKENS = 512
"""The limit of a model whose files name none: that of BERT."""

_FLAGS: tuple[tuple[str, Pooling], ...] = (
    ("cls_token", "cls"),
    ("max_tokens", "max"),
    ("mean_tokens", "mean"),
    ("mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("weightedmean_tokens", "weightedmean"),
    ("lasttoken", "lasttoken"),
)
"""Ends of the names of the flags `pooling_mode_...`, each with its pooling."""
_QUANTIZED = re.compile(r"quant|[qu]?int8|_q4|bnb4|uint8")
_REDUCED = re.compile(r"fp16|float16|bf16|_O[1-4]\b")
_MAX_CONFIG_BYTES = 10_000_000
_MAX_DEPTH = 6
_UNLIMITED = 1_000_000
"""`model_max_length` of tokenizers that know no limit is 10**30."""


@dataclass(frozen=True)
class OnnxFolder:
    """What the files of a model folder say."""

    path: Path
    kind: Literal["embedding", "reranker"]
    graph: Path
    """The graph that is used."""
    graphs: tuple[Path, ...]
    """All graphs, the one that is used by default first."""
    poolings: tuple[Pooling, ...]
    """Joined in this order. A graph that pools by itself ignores them."""
    hidden_size: int
    """Width of a token vector; 0: not said."""
    max_tokens: int
    """Of a text, including special tokens."""
    document_prompt: str
    query_prompt: str
    """Prefixes that the model was trained with."""
    activation: Literal["sigmoid", "none"]
    """What a reranker applies to its output."""

    @property
    def dimension(self) -> int:
        """Dimension of the vectors, as far as the files say; 0: not said."""
        return self.hidden_size * len(self.poolings)

    @property
    def size(self) -> int:
        """Bytes of the graph, with its external data."""
        return sum(path.stat().st_size for path in self.files() if path.suffix not in {".json", ".txt"})

    def files(self) -> list[Path]:
        """The files that decide about a vector."""
        data = [path for path in self.graph.parent.iterdir() if path.name.startswith(f"{self.graph.name}_data")]
        data += [path for path in self.graph.parent.iterdir() if path.name == f"{self.graph.name}.data"]
        return [self.graph, *sorted(data), self.path / "tokenizer.json"]


def read_folder(path: str | Path, option: str = "embed.path", file: str = "") -> OnnxFolder:
    """The model of a folder.

    Args:
        path: the folder.
        option: the option that names it, for messages.
        file: the graph, relative to the folder; empty: `model.onnx`, else the only one that is neither quantized nor
            reduced.

    Raises:
        InvalidOption: it is no model folder, or its files do not fit together.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise InvalidOption(option, str(path), "a folder with an exported model: config.json, tokenizer.json, *.onnx")
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            raise InvalidOption(option, str(path), f"a folder with an exported model: {name} is missing in this one")
    graphs = find_graphs(folder)
    if not graphs:
        expected = "a folder with an ONNX graph: export one with `optimum-cli export onnx --model NAME FOLDER`"
        raise InvalidOption(option, str(path), expected)
    graph = _choose_graph(folder, graphs, file, option)
    config = _read(folder / "config.json", option)
    modules = folder / "modules.json"
    _check_modules(modules, option)
    prompts = _read_prompts(folder / "config_sentence_transformers.json", option)
    architectures = config.get("architectures")
    is_reranker = isinstance(architectures, list) and any("ForSequenceClassification" in str(a) for a in architectures)
    return OnnxFolder(
        folder,
        "reranker" if is_reranker and not modules.exists() else "embedding",
        graph,
        (graph, *(other for other in graphs if other != graph)),
        _read_poolings(folder, option),
        _integer(config, "hidden_size") or _integer(config, "dim") or _integer(config, "d_model"),
        _read_max_tokens(folder, config, option),
        prompts.get("document", prompts.get("passage", "")),
        prompts.get("query", ""),
        _read_activation(config),
    )


def find_graphs(folder: Path) -> list[Path]:
    """The graphs of a model folder: those that are neither quantized nor reduced first, then by name."""
    found = [path for place in (folder / "onnx", folder) if place.is_dir() for path in place.glob("*.onnx")]

    def order(path: Path) -> tuple[bool, bool, bool, str]:
        name = path.stem
        return bool(_QUANTIZED.search(name)), bool(_REDUCED.search(name)), name != "model", str(path)

    return sorted(found, key=order)


def find_folders(places: list[Path]) -> Iterator[OnnxFolder]:
    """The models below these folders, by path. Folders that cannot be read and links to folders are skipped."""
    for place in places:
        for root, names, files in os.walk(place, followlinks=False):
            names.sort()
            if len(Path(root).relative_to(place).parts) >= _MAX_DEPTH:
                names.clear()
            if "config.json" in files and "tokenizer.json" in files:
                try:
                    yield read_folder(root)
                except InvalidOption:
                    continue
                names.clear()


def default_places(environ: Mapping[str, str]) -> list[Path]:
    """Where models are looked for: RAGKIT_MODELS, `models` of the working directory, and the hub's cache."""
    named = [Path(part) for part in environ.get(MODELS_VARIABLE, "").split(os.pathsep) if part]
    home = Path(environ.get("HF_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache" / "huggingface")
    return [path for path in (*named, Path("models"), home / "hub") if path.is_dir()]


def _choose_graph(folder: Path, graphs: list[Path], file: str, option: str) -> Path:
    names = [str(path.relative_to(folder)) for path in graphs]
    if file:
        for path, name in zip(graphs, names, strict=True):
            if file in {name, path.name}:
                return path
        raise InvalidOption(f"{option.partition('.')[0]}.file", file, f"one of {', '.join(sorted(names))}")
    whole = [path for path in graphs if not _QUANTIZED.search(path.stem) and not _REDUCED.search(path.stem)]
    if len(graphs) == 1 or len(whole) == 1 or (whole and whole[0].stem == "model"):
        return graphs[0]
    raise InvalidOption(f"{option.partition('.')[0]}.file", file, f"one of {', '.join(sorted(names))}")


def _check_modules(path: Path, option: str) -> None:
    """Raises InvalidOption if the model has a stage after pooling that an exported graph does not contain."""
    modules = _read_json(path, option) if path.exists() else []
    for module in modules if isinstance(modules, list) else []:
        kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else ""
        if kind not in {"Transformer", "Pooling", "Normalize"}:
            expected = f"a model of Transformer, Pooling and Normalize; {path} has {kind or 'an unknown module'}"
            raise InvalidOption(option, str(path.parent), expected)


def _read_poolings(folder: Path, option: str) -> tuple[Pooling, ...]:
    """The poolings of `1_Pooling/config.json`; the mean if there is none, as in sentence-transformers."""
    path = folder / "1_Pooling" / "config.json"
    if not path.exists():
        return ("mean",)
    config = _read(path, option)
    if config.get("include_prompt") is False:
        raise InvalidOption(
            option, str(folder), f"a model that pools its prompt too; {path} says include_prompt: false"
        )
    named = config.get("pooling_mode")
    wanted = (
        {named}
        if isinstance(named, str)
        else {mode for flag, mode in _FLAGS if config.get(f"pooling_mode_{flag}") is True}
    )
    found = tuple(mode for mode in POOLINGS if mode in wanted)
    if not found or len(found) != len(wanted):
        raise InvalidOption(option, str(folder), f"a pooling of {', '.join(POOLINGS)}; {path} names another one")
    return found


def _read_max_tokens(folder: Path, config: Mapping[str, JSON], option: str) -> int:
    """The least limit that one of the files names."""
    sentence = folder / "sentence_bert_config.json"
    tokenizer = folder / "tokenizer_config.json"
    limits = [
        _integer(_read(sentence, option), "max_seq_length") if sentence.exists() else 0,
        _integer(_read(tokenizer, option), "model_max_length") if tokenizer.exists() else 0,
        _position_count(config),
    ]
    known = [limit for limit in limits if 2 < limit < _UNLIMITED]
    return min(known, default=DEFAULT_MAX_TOKENS)


def _position_count(config: Mapping[str, JSON]) -> int:
    """`max_position_embeddings`; models of the RoBERTa family begin to count after the padding token."""
    positions = _integer(config, "max_position_embeddings")
    counts_from_padding = re.search("roberta|camembert|mpnet", str(config.get("model_type", "")))
    return positions - _integer(config, "pad_token_id") - 1 if positions and counts_from_padding else positions


def _read_prompts(path: Path, option: str) -> dict[str, str]:
    config = _read(path, option) if path.exists() else {}
    prompts = config.get("prompts")
    named = {name: text for name, text in prompts.items() if isinstance(text, str)} if isinstance(prompts, dict) else {}
    default = named.get(str(config.get("default_prompt_name")))
    return named if default is None else {"document": default, "query": default, **named}


def _read_activation(config: Mapping[str, JSON]) -> Literal["sigmoid", "none"]:
    """Of a reranker: Identity if its file says so, else the sigmoid, as in sentence-transformers."""
    nested = config.get("sentence_transformers")
    named = (
        nested.get("activation_fn") if isinstance(nested, dict) else config.get("sbert_ce_default_activation_function")
    )
    return "none" if str(named or "").endswith("Identity") else "sigmoid"


def _integer(config: Mapping[str, JSON], key: str) -> int:
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _read(path: Path, option: str) -> dict[str, JSON]:
    content = _read_json(path, option)
    if not isinstance(content, dict):
        raise InvalidOption(option, str(path), "a JSON object in this file")
    return content


def _read_json(path: Path, option: str) -> JSON:
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise InvalidOption(option, str(path), f"a file of at most {_MAX_CONFIG_BYTES:,} bytes")
        content: JSON = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidOption(option, str(path), f"JSON in this file ({error})") from error
    return content
