"""Decides whether a webhook was sent by someone who knows the repository's secret.

Signatures are checked over the raw bytes, in constant time, before anything is
parsed. GitHub, Gitea and Forgejo sign the body; GitLab signs id, time and body
when the secret is a signing token (`whsec_…`, the Standard Webhooks form), and
otherwise sends the secret itself. Whether a delivery was seen before is for the
caller to remember, by its id.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Literal
from urllib.parse import parse_qs

import msgspec

from retinue.schema.errors import Denied

Forge = Literal["github", "gitlab", "gitea", "forgejo"]

TOLERANCE = 300.0
"""Seconds that a signed time may differ from ours, as Standard Webhooks asks."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One verified webhook. `branch` and `commit` are set for pushes that leave a branch behind."""

    forge: Forge
    id: str
    """The sender's, or a digest of the body when it sent none."""
    event: str
    branch: str | None = None
    commit: str | None = None


def verify(headers: Mapping[str, str], body: bytes, secret: str, *, now: float) -> Delivery:
    """Return what was delivered.

    Args:
        headers: In any case.
        body: The bytes as they came, never re-encoded JSON.
        now: Seconds since the epoch.

    Raises:
        Denied: Nothing proves that the sender knows `secret`, or it is empty.
    """
    if not secret.strip():
        raise Denied("webhooks of this repository have an empty secret", hint="set webhookSecret to env(NAME)")
    given = {key.lower(): value.strip() for key, value in headers.items()}
    forge = _forge(given)
    if not _proven(forge, given, body, secret, now):
        raise Denied(f"the {forge} webhook's signature does not fit its body and this repository's secret")
    event = given.get(f"x-{forge}-event", "")
    delivery = next((given[name] for name in _ID[forge] if given.get(name)), None)
    branch, commit = _push(given, body) if event in ("push", "Push Hook") else (None, None)
    return Delivery(
        forge=forge,
        id=f"{forge}:{delivery or hashlib.sha256(body).hexdigest()}",
        event=event,
        branch=branch,
        commit=commit,
    )


_SIGNED: dict[str, Forge] = {
    "x-forgejo-signature": "forgejo",
    "x-gitea-signature": "gitea",
    "x-hub-signature-256": "github",
    "webhook-signature": "gitlab",
    "x-gitlab-token": "gitlab",
}
"""In this order: Forgejo sends Gitea's and GitHub's headers too, Gitea sends GitHub's."""

_HEX: dict[Forge, tuple[str, str]] = {
    "github": ("x-hub-signature-256", "sha256="),
    "gitea": ("x-gitea-signature", ""),
    "forgejo": ("x-forgejo-signature", ""),
}
"""The header with the body's digest in hex, and what stands before it."""
_ID: dict[Forge, tuple[str, ...]] = {
    "github": ("x-github-delivery",),
    # the key is the same for every attempt of one delivery, the UUID for everything one event set off
    "gitlab": ("webhook-id", "idempotency-key", "x-gitlab-event-uuid"),
    "gitea": ("x-gitea-delivery",),
    "forgejo": ("x-forgejo-delivery", "x-gitea-delivery"),
}


class _Push(msgspec.Struct):
    ref: str = ""
    after: str = ""


def _forge(headers: Mapping[str, str]) -> Forge:
    for name, forge in _SIGNED.items():
        if name in headers:
            return forge
    raise Denied(
        f"the webhook is not signed; wanted one of {', '.join(_SIGNED)}",
        hint="give the webhook the repository's secret where it is configured",
    )


def _proven(forge: Forge, headers: Mapping[str, str], body: bytes, secret: str, now: float) -> bool:
    if forge in _HEX:
        header, prefix = _HEX[forge]
        return _same(headers[header], prefix + hmac.digest(secret.encode(), body, "sha256").hex())
    if secret.startswith("whsec_"):
        return _standard(headers, body, secret.removeprefix("whsec_"), now)
    return _same(headers.get("x-gitlab-token", ""), secret)


def _standard(headers: Mapping[str, str], body: bytes, token: str, now: float) -> bool:
    """Standard Webhooks: any of several signatures over `id.time.body`, and a time near ours."""
    try:
        key = base64.b64decode(token, validate=True)
        sent = headers.get("webhook-timestamp", "")
        age = abs(now - int(sent))
    except (binascii.Error, ValueError):
        return False
    if not key or age > TOLERANCE:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return any(_same(one, wanted) for one in headers.get("webhook-signature", "").split())


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _push(headers: Mapping[str, str], body: bytes) -> tuple[str | None, str | None]:
    """The branch and its new commit; a deleted branch has none, and neither has a tag."""
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        body = parse_qs(body.decode("utf-8", "replace")).get("payload", [""])[0].encode()
    try:
        push = msgspec.json.decode(body, type=_Push)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, None
    if not push.ref.startswith("refs/heads/"):
        return None, None
    return push.ref.removeprefix("refs/heads/"), push.after if push.after.strip("0") else None
