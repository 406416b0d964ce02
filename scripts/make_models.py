"""Write `ragkit/models.py`: the models of the services that ragkit speaks to, as typed constants.

    python scripts/make_models.py            # with the prices of today
    python scripts/make_models.py --check    # exit 1 when the file is not what its own day's data gives

The data is that of the installed genai-prices and of `configs/prices.yaml`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from ragkit.usage import price_files
from ragkit.usage.pricing import ModelInfo, Price, bundled_models

PLACE = Path(__file__).resolve().parent.parent / "ragkit" / "models.py"
CLASSES = {
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "groq": "Groq",
    "cohere": "Cohere",
    "voyage": "Voyage",
    "mistral": "Mistral",
    "deepseek": "DeepSeek",
    "xai": "XAI",
}
HEAD = '''"""Models with their limits and prices, as constants: `OpenAI.GPT_4O.name` is "openai:gpt-4o".

Made by `scripts/make_models.py` from genai-prices and `configs/prices.yaml`, with the prices of {day}: do not edit.
What a run costs is looked up when it runs, in a `PriceBook`; these figures are for choosing a model.
"""

# fmt: off

from __future__ import annotations

from typing import Final

from ragkit.usage.model_info import Kind, ModelInfo, Price


def _of(
    provider: str, model: str, kind: Kind, limits: tuple[int | None, int | None], *price: float | None
) -> ModelInfo:
    return ModelInfo(provider, model, *limits, Price(*price), kind)
'''


def models(at: datetime) -> Iterator[ModelInfo]:
    """Every model that gets a constant: of the catalogue, with what the shipped price file says of it, and of that."""
    overrides = price_files.read_price_file(price_files.shipped_price_file())
    for one in bundled_models(at):
        own = overrides.pop(one.name, None)
        yield price_files.merge_model_info(own, one) if own else one
    yield from overrides.values()


def text(day: date) -> str:
    """The whole file, with the prices of a day."""
    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    parts = [HEAD.format(day=day)]
    known = [one for one in models(at) if one.kind != "other"]
    for provider, name in CLASSES.items():
        own = sorted((one for one in known if one.provider == provider), key=lambda one: one.model)
        parts.append(f'\n\nclass {name}:\n    """Models of `{provider}`."""\n\n')
        lines = {constant(one.model): line(one) for one in own}
        if len(lines) != len(own):
            raise SystemExit(f"two models of {provider} would have the same constant")
        parts += [f"    {key}: Final = {value}\n" for key, value in lines.items()]
    return "".join(parts)


def constant(model: str) -> str:
    """`gpt-4o-mini` -> `GPT_4O_MINI`."""
    name = re.sub(r"\W+", "_", model).strip("_").upper()
    return f"_{name}" if name[0].isdigit() else name


def line(one: ModelInfo) -> str:
    """The constant's value; what is not known at the end of the price is left out."""
    price: Price = one.price
    figures = [price.input_usd, price.output_usd, price.cached_usd, price.search_usd]
    while figures and figures[-1] is None:
        figures.pop()
    limits = f"({one.context_window}, {one.max_output_tokens})"
    prices = "".join(f", {'None' if figure is None else f'{figure:g}'}" for figure in figures)
    return f'_of("{one.provider}", "{one.model}", "{one.kind}", {limits}{prices})'


def day_of(path: Path) -> date:
    """The day whose prices a file holds."""
    found = re.search(r"with the prices of (\d{4}-\d\d-\d\d)", path.read_text("utf-8"))
    if found is None:
        raise SystemExit(f"{path} does not say of which day it is")
    return date.fromisoformat(found[1])


def main() -> None:
    """Write the file, or check it."""
    if sys.argv[1:] == ["--check"]:
        if PLACE.read_text("utf-8") != text(day_of(PLACE)):
            raise SystemExit(f"{PLACE} is not up to date: python scripts/make_models.py")
        return
    PLACE.write_text(text(datetime.now(tz=UTC).date()), "utf-8")
    print(f"{PLACE}: {PLACE.read_text('utf-8').count(': Final')} models")


if __name__ == "__main__":
    main()
