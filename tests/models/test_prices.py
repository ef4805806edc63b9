"""Prices: ours are those of the kept list, and unknown stays unknown."""

from datetime import UTC, datetime
from decimal import Decimal

import genai_prices
import pytest

from retinue.models.known import NAMES, ModelInfo, known
from retinue.models.prices import cost, listed
from retinue.schema.completion import Usage

MADE = datetime(2026, 11, 16, tzinfo=UTC)
USAGES = [
    Usage(input=1000, output=100, cache_read=300),
    Usage(input=500_000, output=5000, cache_read=400_000, thinking=100),
]


def maker(model: str) -> str:
    return "anthropic" if model.startswith("claude") else "google" if model.startswith("gemini") else "openai"


def theirs(provider: str, model: str, usage: Usage, info: ModelInfo) -> int:
    """What the library says, on the day the table was made: it keeps the prices of the past."""
    asked = genai_prices.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read if info.price_cache_read is not None else None,
    )
    found = genai_prices.calc_price(asked, model, provider_id=provider, genai_request_timestamp=MADE)
    return round(found.total_price * Decimal(10**9))


@pytest.mark.spec("MOD-06")
@pytest.mark.parametrize("model", NAMES)
def test_the_table_of_known_models_agrees_with_the_kept_list(model: str) -> None:
    info = known(model)

    assert info is not None
    for usage in USAGES:
        assert cost(usage, info) == theirs(maker(model), model, usage, info)


@pytest.mark.spec("MOD-06")
@pytest.mark.parametrize(
    ("provider", "model"),
    [("anthropic", "claude-haiku-5-5"), ("openai", "gpt-4o"), ("groq", "llama-3.3-70b-versatile")],
)
def test_other_models_cost_what_the_kept_list_says(provider: str, model: str) -> None:
    info = listed(provider, model)

    assert info is not None
    for usage in USAGES:
        assert cost(usage, info) == theirs(provider, model, usage, info)


def test_writing_to_the_cache_has_its_own_price() -> None:
    info = ModelInfo(price_in=2, price_out=10, price_cache_read=0.2, price_cache_write=2.5)

    assert (
        cost(Usage(input=100, cache_read=50, cache_write=30, output=1), info)
        == 20 * 2000 + 50 * 200 + 30 * 2500 + 10_000
    )


@pytest.mark.spec("MOD-06")
def test_a_price_that_nobody_knows_is_none() -> None:
    assert known("acme-1") is None
    assert listed("acme", "acme-1") is None
    assert listed("openai", "acme-1") is None
    assert cost(Usage(input=1), ModelInfo(window=5)) is None


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-5-mini", "gpt-5-mini"),
    ],
)
def test_dated_and_prefixed_names_are_known(name: str, row: str) -> None:
    assert known(name) == known(row) is not None


@pytest.mark.parametrize("name", ["gpt-4o-audio-preview", "gpt-4", "claude-instant", ""])
def test_a_longer_name_is_another_model(name: str) -> None:
    assert known(name) is None


def test_the_operators_word_comes_first_and_prices_stay_together() -> None:
    table = known("gpt-4o")
    assert table is not None

    assert ModelInfo(window=5).over(table) == known_with(table, window=5)
    priced = ModelInfo(price_in=1, price_out=2).over(table)
    assert (priced.window, priced.price_in, priced.price_out, priced.price_cache_read) == (table.window, 1, 2, None)


def known_with(info: ModelInfo, *, window: int) -> ModelInfo:
    return ModelInfo(
        window=window,
        max_output=info.max_output,
        price_in=info.price_in,
        price_out=info.price_out,
        price_cache_read=info.price_cache_read,
    )
