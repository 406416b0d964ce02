"""Read the header of a GGUF file: what kind of model it is, its limits, and whether the file is whole.

The engine reports every failure with the same words, so that all that can be known is checked here first.
Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ragkit.errors import InvalidOption

Value: TypeAlias = str | int | float | bool | None
Kind: TypeAlias = Literal["chat", "embedding", "reranker"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MAX_COUNT = 10_000_000
"""Values, items of a list and tensors: more are found in damaged files only."""
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""Type of a tensor -> values and bytes of a block. Tensors of other types are checked at their start only."""
_ENCODERS = re.compile(r"bert|^gemma-embedding$|^t5encoder$|^llama-embed$")
_RANK_POOLING = 4
_WHOLE = "a whole GGUF file; download or copy it again"


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """What the header of a file says."""

    path: Path
    size: int
    """Bytes of all parts."""
    name: str
    """The name of the model; empty: not said."""
    architecture: str
    kind: Kind
    parameters: str
    """The number of parameters as text, such as `1.5B`; empty: not said."""
    context_length: int
    """Tokens that the model was trained for; 0: not said."""
    cache_bytes_per_token: int
    """Memory for a token of the prompt and the answer."""
    knows_tools: bool
    """Whether its chat template takes tools."""


def read_gguf(path: str | Path, option: str = "model") -> GGUFFile:
    """Read the header of a file.

    Args:
        path: the file; of a model in parts the first one.
        option: what names the file, for errors.

    Raises:
        InvalidOption: it is no file, no GGUF file, cut, or a part of a model that does not run alone.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        what = "a GGUF file; this is a folder" if file.is_dir() else "an existing GGUF file"
        raise InvalidOption(option, str(path), f"{what}: `ragkit models --local` lists those of this machine")
    try:
        with file.open("rb") as stream:
            size = file.stat().st_size
            if stream.read(4) != _MAGIC:
                raise InvalidOption(option, str(path), "a GGUF file; this one has another format")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                values, names = _Reader(data, size).read()
    except OSError as error:
        raise InvalidOption(option, str(path), f"a readable GGUF file ({error.strerror})") from error
    except (struct.error, UnicodeDecodeError, _DamagedError) as error:
        reason = f"{error}" if isinstance(error, _DamagedError) else "its header is damaged"
        raise InvalidOption(option, str(path), f"{_WHOLE}: {reason}") from error
    return _describe(file, size + _size_of_parts(file, values, option), values, names, option)


class _DamagedError(Exception):
    """The file is not what its header says."""


class _Reader:
    """Reads a header from its start. Lists are skipped: those of the tokenizer have some 100,000 items."""

    def __init__(self, data: mmap.mmap, size: int) -> None:
        self._data, self._size, self._at = data, size, 4

    def read(self) -> tuple[dict[str, Value], set[str]]:
        """The values, and the names of the tensors. Raises _DamagedError if the file ends before its last tensor."""
        version = self._scalar("<I")
        if version not in _VERSIONS:
            raise _DamagedError(f"version {version} is not known")
        tensor_count, value_count = self._count(), self._count()
        values: dict[str, Value] = {}
        for _ in range(value_count):
            key = self._text()
            values[key] = self._value(int(self._scalar("<I")))
        names, end = self._tensors(tensor_count)
        alignment = max(1, _integer(values, "general.alignment") or 32)
        needed = -(-self._at // alignment) * alignment + end
        if needed > self._size:
            raise _DamagedError(f"it has {self._size:,} of {needed:,} bytes")
        return values, names

    def _tensors(self, count: int) -> tuple[set[str], int]:
        """The names, and the bytes from the start of the data to the end of the last tensor."""
        names, end = set[str](), 0
        for _ in range(count):
            names.add(self._text())
            values = 1
            for _ in range(int(self._scalar("<I"))):
                values *= int(self._scalar("<Q"))
            block, block_bytes = _BLOCKS.get(int(self._scalar("<I")), (1, 0))
            end = max(end, int(self._scalar("<Q")) + values // block * block_bytes)
        return names, end

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            return self._scalar(self._form(kind))
        item, count = int(self._scalar("<I")), self._count()
        if item == _STRING:
            for _ in range(count):
                self._skip(int(self._scalar("<Q")))
            return None
        if item == _ARRAY:
            for _ in range(count):
                self._value(_ARRAY)
            return None
        if not count:
            return None
        first = self._scalar(self._form(item))
        self._skip(struct.calcsize(_SCALARS[item]) * (count - 1))
        return first  # of lists with a number for each layer the first one stands for all

    def _form(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise _DamagedError(f"type {kind} of a value is not known")
        return _SCALARS[kind]

    def _count(self) -> int:
        count = int(self._scalar("<Q"))
        if count > _MAX_COUNT:
            raise _DamagedError("its header is damaged")
        return count

    def _scalar(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def _text(self) -> str:
        length = int(self._scalar("<Q"))
        start = self._at
        self._skip(length)
        return self._data[start : self._at].decode("utf-8", "replace")

    def _skip(self, length: int) -> None:
        self._at += length
        if self._at > self._size:
            raise _DamagedError(f"it has {self._size:,} bytes, its header more")


def _describe(path: Path, size: int, values: Mapping[str, Value], tensors: set[str], option: str) -> GGUFFile:
    architecture = str(values.get("general.architecture") or "")
    kind_of_file = str(values.get("general.type") or "model")
    if kind_of_file != "model" or architecture == "clip" or not tensors:
        what = "an adapter" if kind_of_file == "adapter" else "a part of a model without its weights"
        raise InvalidOption(option, str(path), f"a GGUF file with a whole model; this one holds {what}")
    templates = (str(text) for key, text in values.items() if key.startswith("tokenizer.chat_template"))
    return GGUFFile(
        path=path,
        size=size,
        name=str(values.get("general.name") or ""),
        architecture=architecture,
        kind=_kind(architecture, values, tensors),
        parameters=str(values.get("general.size_label") or ""),
        context_length=_integer(values, f"{architecture}.context_length"),
        cache_bytes_per_token=_cache_bytes(architecture, values),
        knows_tools=any(re.search(r"\btools\b", text) for text in templates),
    )


def _kind(architecture: str, values: Mapping[str, Value], tensors: set[str]) -> Kind:
    pooling = values.get(f"{architecture}.pooling_type")
    is_encoder = bool(_ENCODERS.search(architecture))
    if pooling == _RANK_POOLING or (is_encoder and any(name.startswith("cls.") for name in tensors)):
        return "reranker"
    return "embedding" if is_encoder or pooling else "chat"


def _cache_bytes(architecture: str, values: Mapping[str, Value]) -> int:
    """Bytes of the keys and values of a token, in 16 bits, over all layers."""

    def number(key: str) -> int:
        return _integer(values, f"{architecture}.{key}")

    heads = number("attention.head_count") or 1
    width = number("embedding_length") // heads
    key, value = number("attention.key_length") or width, number("attention.value_length") or width
    return number("block_count") * (number("attention.head_count_kv") or heads) * (key + value) * 2


def _integer(values: Mapping[str, Value], key: str) -> int:
    value = values.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def _size_of_parts(path: Path, values: Mapping[str, Value], option: str) -> int:
    """Bytes of the other parts of a model in several files: `NAME-00001-of-00003.gguf`."""
    count = _integer(values, "split.count")
    named = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})", path.stem)
    if count < 2 or named is None:
        return 0
    if int(named[2]) != 1:
        raise InvalidOption(option, str(path), f"the first part of the model: {named[1]}-00001-of-{named[3]}.gguf")
    parts = [path.with_name(f"{named[1]}-{number:05}-of-{named[3]}.gguf") for number in range(2, count + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise InvalidOption(option, str(path), f"beside its other parts; missing: {', '.join(missing)}")
    return sum(part.stat().st_size for part in parts)
