"""What a request costs, from the operator's prices, the table of known models, or the kept price list.

The list (genai-prices) takes longer to load than everything else a first request
needs, so it is asked only for models that nobody else knows. Unknown is None.
"""

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from retinue.models.known import ModelInfo
from retinue.schema.completion import Usage

if TYPE_CHECKING:
    from decimal import Decimal

    from genai_prices.types import TieredPrices

NANO_PER_TOKEN = 1000
"""A dollar per million tokens is a thousand nano-dollars per token."""


def cost(usage: Usage, info: ModelInfo) -> int | None:
    """Nano-dollars, or None when the price is not known."""
    if info.price_in is None or info.price_out is None:
        return None
    is_long = info.long_from is not None and usage.input > info.long_from
    read = info.price_in if info.price_cache_read is None else info.price_cache_read
    write = info.price_in if info.price_cache_write is None else info.price_cache_write
    fresh = max(0, usage.input - usage.cache_read - usage.cache_write)
    sent = fresh * info.price_in + usage.cache_read * read + usage.cache_write * write
    made = usage.output * info.price_out
    if is_long:
        sent, made = sent * info.long_in, made * info.long_out
    return round((sent + made) * NANO_PER_TOKEN)


@cache
def listed(provider: str, model: str) -> ModelInfo | None:
    """What the kept list says today of a provider's model."""
    from genai_prices import Usage as ListUsage
    from genai_prices import calc_price

    try:
        found = calc_price(ListUsage(), model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    prices = found.model_price
    window = found.model.context_window
    if prices.input_mtok is None or prices.output_mtok is None:
        return ModelInfo(window=window)
    sent, made = _rate(prices.input_mtok), _rate(prices.output_mtok)
    return ModelInfo(
        window=window,
        price_in=sent.base,
        price_out=made.base,
        price_cache_read=None if prices.cache_read_mtok is None else _rate(prices.cache_read_mtok).base,
        price_cache_write=None if prices.cache_write_mtok is None else _rate(prices.cache_write_mtok).base,
        long_from=sent.long_from,
        long_in=sent.factor,
        long_out=made.factor,
    )


class _Rate(NamedTuple):
    base: float
    long_from: int | None = None
    factor: float = 1.0


def _rate(price: "Decimal | TieredPrices") -> _Rate:
    """A price and how much dearer its first tier is; nobody has a second."""
    from genai_prices.types import TieredPrices

    if not isinstance(price, TieredPrices):
        return _Rate(float(price))
    base, tier = float(price.base), price.tiers[0]
    return _Rate(base, tier.start, float(tier.price) / base if base else 1.0)
