"""Decides whether a request may leave: the URL as it is written, then every address it leads to.

The guarded client looks names up, asks `judge_addresses` about all answers,
connects to an address that was judged, and asks again at every hop.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from retinue.schema.permission import Decision

Address = IPv4Address | IPv6Address

_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
)
_METADATA_NAMES = frozenset(("metadata", "metadata.google.internal", "metadata.goog", "instance-data"))
_SPECIAL_4 = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([/?#].*)?", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?")
_NUMERIC = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|\d+)")


@dataclass(frozen=True, slots=True)
class Origin:
    scheme: str
    host: str
    """Lower case, ASCII, without brackets and without a final dot."""
    port: int


def judge_url(url: str, *, allow: Collection[str] = ()) -> Decision:
    """Return whether a request for `url` may be made, before its name is looked up.

    Args:
        url: As it was given.
        allow: `host:port` pairs that the operator allows: private hosts, and other ports.
    """
    origin = parse(url)
    if isinstance(origin, str):
        return _deny(origin)
    if origin.host in _METADATA_NAMES:
        return _deny(f"{origin.host} serves the machine's own credentials")
    listed = _listed(origin, allow)
    if ":" in origin.host or _NUMERIC.fullmatch(origin.host):
        decision = judge_addresses(origin.host, origin.port, [origin.host], allow=allow)
        if decision.verdict == "deny":
            return decision
    elif (origin.host == "localhost" or origin.host.endswith(".localhost")) and not listed:
        return _deny(f"{origin.host} is this machine, and the operator does not allow {origin.host}:{origin.port}")
    if origin.port not in (80, 443) and not listed:
        return Decision(verdict="ask", reason=f"port {origin.port} is neither 80 nor 443")
    return Decision(verdict="allow", reason=f"{origin.scheme} to {origin.host}")


def judge_addresses(host: str, port: int, addresses: Sequence[str], *, allow: Collection[str] = ()) -> Decision:
    """Return whether all of `addresses`, which `host` was looked up to, may be connected to."""
    if not addresses:
        return _deny(f"{host} has no address")
    for text in addresses:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return _deny(f"{text!r} is not an address in its usual spelling")
        for inner in _unwrapped(address):
            if inner in _METADATA:
                return _deny(f"{inner} serves the machine's own credentials")
            if not _public(inner) and not {f"{host}:{port}", f"[{host}]:{port}", f"{text}:{port}"} & {*allow}:
                return _deny(f"{inner} is not a public address, and the operator does not allow {host}:{port}")
    return Decision(verdict="allow", reason=f"{host} has public or allowed addresses only")


def judge_redirect(source: str, target: str, *, allow: Collection[str] = ()) -> Decision:
    """Return whether a response from `source` may send the client on to `target`."""
    before, after = parse(source), parse(target)
    if isinstance(before, str) or isinstance(after, str):
        return _deny(after if isinstance(after, str) else str(before))
    if before.scheme == "https" and after.scheme == "http":
        return _deny("a redirect from https to http")
    return judge_url(target, allow=allow)


def same_origin(source: str, target: str) -> bool:
    """Return whether credentials and cookies for `source` may go to `target`."""
    return isinstance(parse(source), Origin) and parse(source) == parse(target)


def parse(url: str) -> Origin | str:
    """Return the origin of an http or https URL, or what is wrong with it; ambiguous spellings are wrong."""
    if bad := next(
        (c for c in url if c in " \\" or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")), ""
    ):
        return f"the URL holds {bad!r}"
    match = _URL.fullmatch(url)
    if match is None:
        return "the URL is not of the form http://host/path"
    scheme, authority = match[1].lower(), match[2]
    if scheme not in _PORTS:
        return f"the scheme {scheme}: is not http or https"
    if "@" in authority or "%" in authority:
        return "the URL has user information or an escaped host"
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        return f"the host {authority!r} is malformed"
    host = _ascii(parts[1].strip("[]"))
    port = int(parts[2]) if parts[2] else _PORTS[scheme]
    if not host or not 0 < port < 65536:
        return f"the host {authority!r} is malformed"
    return Origin(scheme, host, port)


def _ascii(host: str) -> str:
    """Return a host as it will be looked up, or nothing when it can't be a name."""
    if ":" in host:
        return host.lower()
    name = unicodedata.normalize("NFKC", host).lower().replace("\u3002", ".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return ""
    return name.rstrip(".") if _NAME.fullmatch(name) else ""


def _unwrapped(address: Address) -> list[Address]:
    """Return the addresses that a packet to this one may end at."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address, *([address.sixtofour] if address.sixtofour else []), *(address.teredo or ())]


def _public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


def _listed(origin: Origin, allow: Collection[str]) -> bool:
    return f"{origin.host}:{origin.port}" in allow or f"[{origin.host}]:{origin.port}" in allow


def _deny(reason: str) -> Decision:
    return Decision(verdict="deny", reason=reason)
