"""How often somebody may ask: a token bucket for each key, and for each address that shows none."""

from dataclasses import dataclass

_MOST = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Buckets:
    """`rate` a second in the long run, `burst` at once. Memory is bounded: full buckets are forgotten."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._buckets: dict[str, _Bucket] = {}

    def take(self, name: str, now: float) -> float:
        """Take one; seconds to wait when there is none."""
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= _MOST:
                self._forget(now)
            bucket = self._buckets[name] = _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < 1.0:
            return (1.0 - bucket.tokens) / self._rate
        bucket.tokens -= 1.0
        return 0.0

    def _forget(self, now: float) -> None:
        full = [n for n, b in self._buckets.items() if b.tokens + (now - b.at) * self._rate >= self._burst]
        for name in full or list(self._buckets)[: _MOST // 2]:
            del self._buckets[name]
