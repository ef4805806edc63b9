"""What an operator allows on the network."""

import msgspec


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    hosts: frozenset[str] = frozenset()
    """`host:port` pairs: private hosts, and ports other than 80 and 443."""
    proxy: str | None = None
    user_agent: str = "retinue"
