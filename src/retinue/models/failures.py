"""What a provider's refusal means: try again, shorten the request, or give up.

Pure, and the same for every wire format, because providers copy each other's
errors and proxies mix them. Who retries, when, is the runtime's business.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from retinue.schema.errors import ContextOverflow, ModelError

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|request_too_large|string_above_max_length"
    r"|(?:max|maximum|model's|available) (?:context|prompt|model) (?:length|size|window)"
    r"|exceed(?:s|ed)? (?:the |your |its )?(?:\w+ )?(?:context|max|token) (?:length|size|window|limit)"
    r"|context window exceeds limit|range of input length should be|must have less than \d+ (?:\w+ )?tokens"
    r"|greater than the context length|prompt is too long|input is too long|too many tokens: total"
    r"|input length and .?max_tokens.? exceed|input token count.{0,40}exceeds|prompt token count.{0,40}exceeds"
    r"|reduce the length of the (?:messages|prompt|input)|longer than the maximum model length"
    r"|tokens \+ .?max_new_tokens.? must be|request too large for .{0,200}tokens per min",
    re.IGNORECASE | re.DOTALL,
)
_UNPAID = re.compile(r"insufficient_quota|billing_|credit balance is too low|insufficient balance", re.IGNORECASE)
_WAIT_IN_TEXT = re.compile(r"(?:try again|retry) in (?:(\d+)m)?([\d.]+)(ms|s)\b|\"retryDelay\":\s*\"()([\d.]+)(s)\"")
_SECRET = re.compile(r"\b(?:(?:sk|pk|rk|key|gsk|xai)[-_*]|AIza)[-_*\w]{7,}")
_TITLE = re.compile(r"<title>([^<]*)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_OVERFLOW_STATUS = frozenset({400, 413, 422, 429, 500})
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 598, 599})
_STATUS_OF_CODE: Mapping[str, int] = {
    "context_length_exceeded": 400,
    "content_filter": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_FAULT_OF_OURS = re.compile(r"invalid_|(?:.*_)?image_|unsupported_")
_LONGEST = 600
_LONGEST_WAIT = 600.0
"""Seconds; who must wait longer is better served by the next provider."""
_SHORTEST_KEY = 8


def classify(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error for a response that is not 2xx; the names of headers are looked up in lower case."""
    text = body[:65536].decode("utf-8", "replace")
    found = _read(text)
    about = f"{found.code} {found.message}"
    sentence = f"the provider answered {status}: {_clean(found.message) or 'no reason given'}"
    if status in _OVERFLOW_STATUS and _OVERFLOW.search(about):
        return ContextOverflow(sentence, status=status)
    if 300 <= status < 400:
        return ModelError(f"the provider answered with a redirect ({status}), which is never followed", status=status)
    told = headers.get("x-should-retry")
    transient = status in _TRANSIENT_STATUS if told is None else told == "true"
    wait = retry_after(headers, text)
    if wait is not None and wait > _LONGEST_WAIT:
        return ModelError(f"{sentence} (it asks to wait {wait:.0f} seconds)", status=status)
    transient = transient and not _UNPAID.search(about)
    return ModelError(sentence, status=status, transient=transient, retry_after=wait if transient else None)


def classify_event(error: bytes) -> ModelError:
    """The error for a failure reported inside a stream, where no status says what it is.

    Args:
        error: JSON: an object with `error` in it, or the error itself.
    """
    code = _read(error.decode("utf-8", "replace")).code
    if code.isdigit() and 400 <= int(code) < 600:
        return classify(int(code), {}, error)
    status = _STATUS_OF_CODE.get(code) or (400 if _FAULT_OF_OURS.match(code) else 500)
    return classify(status, {}, error)


def cut(why: str = "") -> ModelError:
    reason = f" ({why})" if why else ""
    return ModelError(f"the provider ended the stream before the answer was whole{reason}", transient=True)


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds to wait, from `retry-after-ms`, `retry-after` (seconds or a date) or the body's words."""
    if (exact := _number(headers.get("retry-after-ms"))) is not None:
        return exact / 1000
    given = headers.get("retry-after")
    if (seconds := _number(given)) is not None:
        return seconds
    if given and (at := _date(given)):
        # The provider's own clock, so that ours may be wrong.
        now = _date(headers.get("date", "")) or datetime.now(UTC)
        return max(0.0, (at - now).total_seconds())
    if match := _WAIT_IN_TEXT.search(body):
        minutes, amount, unit = match[1] or "0", match[2] or match[5], match[3] or match[6]
        wait = _number(amount)
        return None if wait is None else int(minutes) * 60 + (wait / 1000 if unit == "ms" else wait)
    return None


def redacted(text: str, *secrets: str | None) -> str:
    """`text` without the secrets, and without what looks like a key: some providers repeat it.

    Keys of a few letters are what servers without keys are given; they are in every word.
    """
    for secret in secrets:
        if secret and len(secret) >= _SHORTEST_KEY:
            text = text.replace(secret, "***")
    return _SECRET.sub("***", text)


class _Found(msgspec.Struct, frozen=True):
    code: str
    message: str


class _Error(msgspec.Struct):
    code: str | int | None = None
    type: str | None = None
    status: str | int | None = None
    message: str | None = None
    detail: str | None = None


class _Body(_Error):
    error: _Error | str | None = None


_body = msgspec.json.Decoder(_Body)
_bodies = msgspec.json.Decoder(list[_Body])


def _read(text: str) -> _Found:
    """The error's code and words, in any of the shapes that providers and proxies use."""
    try:
        body = (_bodies.decode(text) or [_Body()])[0] if text.startswith("[") else _body.decode(text)
    except msgspec.DecodeError:
        title = _TITLE.search(text)
        return _Found(code="", message=title[1] if title else text)
    inner = body.error if isinstance(body.error, _Error) else body
    words = inner.message or (body.error if isinstance(body.error, str) else None) or inner.detail
    code = inner.code if inner.code is not None else inner.type or inner.status
    return _Found(code=str(code or ""), message=words or text)


def _clean(text: str) -> str:
    text = redacted(_CONTROL.sub(" ", text)).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
