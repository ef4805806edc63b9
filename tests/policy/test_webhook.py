"""Two digests are fixed and agree with `openssl dgst -sha256 -hmac`; the others are computed here."""

import base64
import hashlib
import hmac
import json

import pytest

from retinue.policy.webhook import Delivery, verify
from retinue.schema.errors import Denied

SECRET = "It's a Secret to Everybody"
COMMIT = "bffeb74224043ba2feb48d137756c8a9331c449a"
PUSH = json.dumps({"ref": "refs/heads/release/1.2", "before": "0" * 40, "after": COMMIT}).encode()
SIGNED = "a6bc5ec20e3f35a5f4aa9b3169368963a4be96696adc53d38edb1c73b32b13af"
NOW = 1_700_000_000.0


def hexed(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def test_githubs_documented_vector_is_accepted() -> None:
    headers = {
        "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "ping",
    }
    assert verify(headers, b"Hello, World!", SECRET, now=NOW) == Delivery(
        forge="github", id="github:72d3162e-cc78-11e3-81ab-4c9367dc0958", event="ping"
    )


@pytest.mark.spec("REG-06")
@pytest.mark.parametrize(
    ("forge", "headers"),
    [
        ("github", {"X-Hub-Signature-256": "sha256={hex}", "X-GitHub-Event": "push", "X-GitHub-Delivery": "1"}),
        ("gitlab", {"X-Gitlab-Token": "{secret}", "X-Gitlab-Event": "Push Hook", "Idempotency-Key": "1"}),
        ("gitlab", {"X-Gitlab-Token": "{secret}", "X-Gitlab-Event": "Push Hook", "X-Gitlab-Event-UUID": "1"}),
        ("gitea", {"X-Gitea-Signature": "{hex}", "X-Gitea-Event": "push", "X-Gitea-Delivery": "1"}),
        ("forgejo", {"X-Forgejo-Signature": "{hex}", "X-Forgejo-Event": "push", "X-Forgejo-Delivery": "1"}),
    ],
)
def test_each_forge_is_accepted_with_its_secret_and_refused_without(forge: str, headers: dict[str, str]) -> None:
    def sent(secret: str, body: bytes) -> dict[str, str]:
        return {k.lower(): v.format(hex=hexed(body, secret), secret=secret) for k, v in headers.items()}

    delivery = verify(sent(SECRET, PUSH), PUSH, SECRET, now=NOW)
    assert delivery == Delivery(
        forge=delivery.forge, id=f"{forge}:1", event=delivery.event, branch="release/1.2", commit=COMMIT
    )
    assert delivery.forge == forge
    with pytest.raises(Denied):
        verify(sent("another", PUSH), PUSH, SECRET, now=NOW)
    for empty in ("", "  "):
        with pytest.raises(Denied, match="empty secret"):
            verify(sent(empty, PUSH), PUSH, empty, now=NOW)
    if forge != "gitlab":
        with pytest.raises(Denied):
            verify(sent(SECRET, PUSH), PUSH + b" ", SECRET, now=NOW)


def test_gitlabs_signing_token_covers_id_time_and_body() -> None:
    key = b"\x01" * 32
    secret = "whsec_" + base64.b64encode(key).decode()
    signature = base64.b64encode(hmac.digest(key, b"msg_1.1700000000." + PUSH, "sha256")).decode()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,b2xkIGtleQ== v1,{signature}",
        "X-Gitlab-Event": "Push Hook",
    }
    assert verify(headers, PUSH, secret, now=NOW).id == "gitlab:msg_1"

    for change in (
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": "1700000001"},
        {"webhook-timestamp": "soon"},
        {"webhook-signature": signature},
        {"webhook-signature": "", "X-Gitlab-Token": "whatever"},
    ):
        with pytest.raises(Denied):
            verify({**headers, **change}, PUSH, secret, now=NOW)
    with pytest.raises(Denied):
        verify(headers, PUSH, secret, now=NOW + 301)
    with pytest.raises(Denied):
        verify(headers, PUSH, "whsec_", now=NOW)


def test_a_bad_signature_is_not_rescued_by_a_good_one_of_another_form() -> None:
    headers = {"X-Forgejo-Signature": "0" * 64, "X-Gitea-Signature": hexed(PUSH), "X-Gitlab-Token": SECRET}
    with pytest.raises(Denied, match="forgejo"):
        verify(headers, PUSH, SECRET, now=NOW)


def test_gitea_is_known_though_it_sends_githubs_headers_too() -> None:
    headers = {
        "X-Hub-Signature-256": f"sha256={hexed(PUSH)}",
        "X-GitHub-Event": "push",
        "X-Gitea-Signature": SIGNED,
        "X-Gitea-Event": "push",
        "X-Gitea-Delivery": "f6266f16",
    }
    assert verify(headers, PUSH, SECRET, now=NOW).id == "gitea:f6266f16"


@pytest.mark.parametrize("headers", [{}, {"X-Hub-Signature": "sha1=abc"}, {"X-GitHub-Event": "push"}])
def test_a_webhook_without_a_signature_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Denied, match="not signed"):
        verify(headers, PUSH, SECRET, now=NOW)


def test_a_signature_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(Denied):
        verify({"X-Hub-Signature-256": "sha256=é"}, PUSH, SECRET, now=NOW)


@pytest.mark.parametrize(
    ("body", "branch", "commit"),
    [
        (b'{"ref": "refs/heads/main", "after": "%s"}' % (b"0" * 40), "main", None),
        (b'{"ref": "refs/tags/v1", "after": "abc"}', None, None),
        (b"not json \xff", None, None),
        (b'{"ref": 5}', None, None),
        (b"[]", None, None),
        (b"payload=%7B%22ref%22%3A%22refs%2Fheads%2Fmain%22%2C%22after%22%3A%22abc%22%7D", "main", "abc"),
    ],
)
def test_what_was_pushed_is_read_after_the_signature_held(body: bytes, branch: str | None, commit: str | None) -> None:
    form = "application/x-www-form-urlencoded" if body.startswith(b"payload") else "application/json"
    headers = {"X-Hub-Signature-256": f"sha256={hexed(body)}", "X-GitHub-Event": "push", "Content-Type": form}
    delivery = verify(headers, body, SECRET, now=NOW)
    assert (delivery.branch, delivery.commit) == (branch, commit)


def test_a_delivery_without_an_id_is_named_by_its_body() -> None:
    delivery = verify({"X-Gitlab-Token": SECRET}, PUSH, SECRET, now=NOW)
    assert delivery.id == f"gitlab:{hashlib.sha256(PUSH).hexdigest()}"
