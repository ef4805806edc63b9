"""The sizes and prices of the models most asked for, so that a first request need not load the whole price list.

Prices are those of genai-prices, which `retinue.models.prices` asks for every other
model; a test compares the two. Dollars per million tokens.
"""

import re
from collections.abc import Mapping

import msgspec


class ModelInfo(msgspec.Struct, frozen=True):
    """What is known of a model; None is unknown. Prices are dollars per million tokens."""

    window: int | None = None
    max_output: int | None = None
    price_in: float | None = None
    price_out: float | None = None
    price_cache_read: float | None = None
    """None: as any input."""
    price_cache_write: float | None = None
    """None: as any input."""
    long_from: int | None = None
    """Requests with more input than this cost `long_in` and `long_out` times as much."""
    long_in: float = 1.0
    long_out: float = 1.0

    def over(self, other: "ModelInfo | None") -> "ModelInfo":
        """This, with what it does not know taken from `other`. Prices are taken together or not at all."""
        if other is None:
            return self
        prices = self if self.price_in is not None else other
        return msgspec.structs.replace(
            prices,
            window=self.window if self.window is not None else other.window,
            max_output=self.max_output if self.max_output is not None else other.max_output,
        )


_K = 1000
_M = 1000 * _K
_LONG = (
    (re.compile(r"gpt-(?:5\.[456]|6)(?!.*-(?:mini|nano))"), (272 * _K, 2.0, 1.5)),
    (re.compile(r"gemini-.*-pro|claude-sonnet-4-5"), (200 * _K, 2.0, 1.5)),
    (re.compile(r"claude-haiku-5-5"), (100 * _K, 5.0, 5.0)),
)
"""From how much input on a request costs more, and how many times as much."""
_Row = tuple[int, int, float, float, float | None, float | None]
# window, longest answer, input, output, cache read, cache write
_ROWS: Mapping[str, _Row] = {
    "claude-fable-5": (_M, 128 * _K, 10, 50, 1, 12.5),
    "claude-fable-5-1": (_M, 128 * _K, 10, 50, 0.25, 12.5),
    "claude-haiku-4-5": (200 * _K, 64 * _K, 1, 5, 0.1, 1.25),
    "claude-haiku-5-5": (_M, 128 * _K, 0.1, 0.5, 0.01, 0.125),
    "claude-opus-4-0": (200 * _K, 32 * _K, 15, 75, 1.5, 18.75),
    "claude-opus-4-1": (200 * _K, 32 * _K, 15, 75, 1.5, 18.75),
    "claude-opus-4-5": (200 * _K, 64 * _K, 5, 25, 0.5, 6.25),
    "claude-opus-4-6": (_M, 128 * _K, 5, 25, 0.5, 6.25),
    "claude-opus-4-7": (_M, 128 * _K, 5, 25, 0.5, 6.25),
    "claude-opus-4-8": (_M, 128 * _K, 5, 25, 0.5, 6.25),
    "claude-opus-5": (_M, 128 * _K, 5, 25, 0.5, 6.25),
    "claude-opus-5-5": (_M, 128 * _K, 4, 20, 0.2, 5),
    "claude-sonnet-4-0": (200 * _K, 64 * _K, 3, 15, 0.3, 3.75),
    "claude-sonnet-4-5": (200 * _K, 64 * _K, 3, 15, 0.3, 3.75),
    "claude-sonnet-4-6": (_M, 128 * _K, 3, 15, 0.3, 3.75),
    "claude-sonnet-5": (_M, 128 * _K, 2, 10, 0.2, 2.5),
    "claude-sonnet-5-5": (_M, 128 * _K, 2, 10, 0.1, 2.5),
    "gemini-2.0-flash": (_M, 8192, 0.1, 0.4, 0.025, None),
    "gemini-2.5-flash": (1048576, 65536, 0.3, 2.5, 0.03, None),
    "gemini-2.5-flash-lite": (_M, 65536, 0.1, 0.4, 0.01, None),
    "gemini-2.5-pro": (1048576, 65536, 1.25, 10, 0.125, None),
    "gemini-3-flash-preview": (_M, 65536, 0.5, 3, 0.05, None),
    "gemini-3-pro-preview": (1048576, 65536, 2, 12, 0.2, None),
    "gemini-3.1-flash-lite": (_M, 65536, 0.25, 1.5, 0.025, None),
    "gemini-3.1-pro-preview": (1048576, 65536, 2, 12, 0.2, None),
    "gemini-3.5-flash": (_M, 65536, 1.5, 9, 0.15, None),
    "gemini-3.5-flash-lite": (_M, 65536, 0.3, 2.5, 0.03, None),
    "gemini-3.6-flash": (_M, 65536, 0.75, 3.75, 0.075, None),
    "gemini-3.7-flash": (_M, 65536, 0.75, 3.75, 0.075, None),
    "gemini-3.8-flash": (_M, 65536, 0.75, 3.75, 0.075, None),
    "gemini-4-argon": (1048576, 65536, 2, 10, 0.1, None),
    "gpt-4.1": (_M, 32768, 2, 8, 0.5, None),
    "gpt-4.1-mini": (_M, 32768, 0.4, 1.6, 0.1, None),
    "gpt-4.1-nano": (_M, 32768, 0.1, 0.4, 0.025, None),
    "gpt-4o": (128 * _K, 16384, 2.5, 10, 1.25, None),
    "gpt-4o-mini": (128 * _K, 16384, 0.15, 0.6, 0.075, None),
    "gpt-5": (400 * _K, 128 * _K, 1.25, 10, 0.125, None),
    "gpt-5-mini": (400 * _K, 128 * _K, 0.25, 2, 0.025, None),
    "gpt-5-nano": (400 * _K, 128 * _K, 0.05, 0.4, 0.005, None),
    "gpt-5-pro": (400 * _K, 128 * _K, 15, 120, None, None),
    "gpt-5.1": (400 * _K, 128 * _K, 1.25, 10, 0.125, None),
    "gpt-5.2": (400 * _K, 128 * _K, 1.75, 14, 0.175, None),
    "gpt-5.2-pro": (400 * _K, 128 * _K, 21, 168, None, None),
    "gpt-5.3-codex": (400 * _K, 128 * _K, 1.75, 14, 0.175, None),
    "gpt-5.4": (1050 * _K, 128 * _K, 2.5, 15, 0.25, None),
    "gpt-5.4-mini": (400 * _K, 128 * _K, 0.75, 4.5, 0.075, None),
    "gpt-5.4-nano": (400 * _K, 128 * _K, 0.2, 1.25, 0.02, None),
    "gpt-5.4-pro": (1050 * _K, 128 * _K, 30, 180, None, None),
    "gpt-5.5": (_M, 128 * _K, 5, 30, 0.5, None),
    "gpt-5.5-pro": (_M, 128 * _K, 30, 180, None, None),
    "gpt-5.6-luna": (1050 * _K, 128 * _K, 0.2, 1.2, 0.02, 0.25),
    "gpt-5.6-sol": (1050 * _K, 128 * _K, 4, 20, 0.4, 5),
    "gpt-5.6-terra": (1050 * _K, 128 * _K, 2, 12, 0.2, 2.5),
    "gpt-6-astra": (1050 * _K, 128 * _K, 10, 50, 1, 12.5),
    "gpt-6-luna": (1050 * _K, 128 * _K, 0.1, 0.5, 0.01, 0.125),
    "gpt-6-sol": (1050 * _K, 128 * _K, 2, 10, 0.2, 2.5),
    "gpt-6.1-sol": (1050 * _K, 128 * _K, 2, 10, 0.1, 2.5),
    "gpt-6.1-terra": (1050 * _K, 128 * _K, 1, 5, 0.05, 1.25),
    "o1": (200 * _K, 100 * _K, 15, 60, 7.5, None),
    "o3": (200 * _K, 100 * _K, 2, 8, 0.5, None),
    "o3-mini": (200 * _K, 100 * _K, 1.1, 4.4, 0.55, None),
    "o4-mini": (200 * _K, 100 * _K, 1.1, 4.4, 0.275, None),
}
_DATED = re.compile(r"(.+?)(?:-latest|[-@]20\d{6}|-20\d\d-\d\d-\d\d)?")
NAMES = tuple(_ROWS)


def known(model: str) -> ModelInfo | None:
    """Of a model by its maker's name for it, dated or not, with or without the maker in front."""
    match = _DATED.fullmatch(model.rsplit("/", 1)[-1].lower())
    name = match[1] if match else ""
    if name.startswith("claude"):
        name = name.replace(".", "-")
    # Anthropic's first models of a generation have a zero in their name, but not when dated.
    name = name if name in _ROWS else f"{name}-0"
    row = _ROWS.get(name)
    if row is None:
        return None
    start, long_in, long_out = next((tier for pattern, tier in _LONG if pattern.match(name)), (None, 1.0, 1.0))
    return ModelInfo(*row, start, long_in, long_out)
