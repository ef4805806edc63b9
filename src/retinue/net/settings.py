"""What an operator allows and denies on the network."""

import msgspec


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    hosts: frozenset[str] = frozenset()
    """`host:port` pairs: private hosts, and ports other than 80 and 443."""
    denied: frozenset[str] = frozenset()
    """Hosts, with all below them, that nothing is asked of."""
    proxy: str | None = None
    user_agent: str = "retinue"

    def denies(self, host: str) -> bool:
        """Whether `host`, in lower case, is a denied one or below one."""
        names = (name.lower().rstrip(".") for name in self.denied)
        return any(host == name or host.endswith(f".{name}") for name in names)
