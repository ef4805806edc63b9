"""Refusals as providers word them, and what we make of each."""

import json

import pytest

from retinue.models.failures import classify, classify_event, cut, redacted, retry_after
from retinue.schema.errors import ContextOverflow, ModelError


def classified(status: int, body: object, headers: dict[str, str] | None = None) -> ModelError:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return classify(status, headers or {}, raw)


OVERFLOWS = [
    (400, {"error": {"message": "Too long.", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
    (
        400,
        {"error": {"message": "This model's maximum context length is 128000 tokens. However, you requested 130000."}},
    ),
    (400, {"error": {"message": "Your input exceeds the context window of this model. Please adjust your input."}}),
    (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1 maximum"}},
    ),
    (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            }
        },
    ),
    (
        400,
        {"object": "error", "message": "The decoder prompt (length 9) is longer than the maximum model length of 8."},
    ),
    (400, {"error": {"message": "This endpoint's maximum context length is 32768 tokens.", "code": 400}}),
    (
        400,
        {"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}},
    ),
    (400, {"message": "Prompt contains 9 tokens, too large for model with 8 maximum context length"}),
    (400, {"error": {"message": "Please reduce the length of the messages or completion."}}),
    (400, {"error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
    (
        422,
        {
            "error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens",
            "error_type": "validation",
        },
    ),
    (
        400,
        {"error": {"message": "prompt token count of 130000 exceeds the limit of 128000", "code": "model_max_prompt"}},
    ),
    (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}),
    (429, {"error": {"message": "Request too large for gpt-x in org on tokens per min (TPM): Limit 1, Requested 2."}}),
    (400, "Input is too long for requested model."),
    (400, {"error": {"message": "Invalid request: Your request exceeded model token limit: 131072", "type": "x"}}),
    (400, {"error": {"message": "invalid params, context window exceeds limit (2013)", "type": "bad_request_error"}}),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    (400, {"error": "prompt too long; exceeded max context length by 7 tokens"}),
    (400, {"error": {"message": "<400> InternalError: Range of input length should be [1, 30720]"}}),
    (422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500"}),
]


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_a_context_overflow_is_known_however_it_is_worded(status: int, body: object) -> None:
    error = classified(status, body)

    assert isinstance(error, ContextOverflow)
    assert not error.transient


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "Invalid value for 'temperature'", "type": "invalid_request_error"}}),
        (429, {"error": {"message": "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000"}}),
        (401, {"error": {"message": "maximum context length"}}),
    ],
)
def test_other_refusals_are_not_taken_for_an_overflow(status: int, body: object) -> None:
    assert not isinstance(classified(status, body), ContextOverflow)


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    ("status", "transient"),
    [(s, True) for s in (408, 409, 425, 429, 500, 502, 503, 504, 529)]
    + [(s, False) for s in (400, 401, 403, 404, 501)],
)
def test_what_may_pass_is_transient(status: int, transient: bool) -> None:
    assert classified(status, {"error": {"message": "no"}}).transient is transient


def test_an_unpaid_bill_does_not_pass() -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}

    assert not classified(429, body).transient


@pytest.mark.parametrize(("told", "transient"), [("true", True), ("false", False)])
def test_a_provider_that_says_whether_to_retry_is_believed(told: str, transient: bool) -> None:
    assert classified(400 if transient else 503, {}, {"x-should-retry": told}).transient is transient


DATE = "Mon, 16 Nov 2026 03:06:25 GMT"


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"retry-after": "7"}, "", 7.0),
        ({"retry-after": "0.5"}, "", 0.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, "", 1.5),
        ({"retry-after": "Mon, 16 Nov 2026 03:07:25 GMT", "date": DATE}, "", 60.0),
        ({"retry-after": "Mon, 16 Nov 2026 03:05:25 GMT", "date": DATE}, "", 0.0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-3"}, "", None),
        ({}, "Rate limit reached. Please try again in 20ms.", 0.02),
        ({}, "Please try again in 6.5s. Visit us.", 6.5),
        ({}, "Please retry in 1m2.5s.", 62.5),
        ({}, '{"details": [{"@type": "RetryInfo", "retryDelay": "34.07s"}]}', 34.07),
        ({}, "Slow down.", None),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], body: str, wait: float | None) -> None:
    assert retry_after(headers, body) == wait


def test_a_date_without_the_providers_clock_is_measured_on_ours() -> None:
    wait = retry_after({"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"})

    assert wait is not None
    assert wait > 1e8


@pytest.mark.spec("MOD-03")
def test_a_wait_that_is_too_long_is_left_to_the_next_provider() -> None:
    error = classified(429, {"error": {"message": "Daily limit."}}, {"retry-after": "7200"})

    assert (error.transient, error.retry_after) == (False, None)
    assert "7200 seconds" in str(error)


def test_only_what_is_tried_again_carries_a_wait() -> None:
    assert classified(429, {}, {"retry-after": "7"}).retry_after == 7.0
    assert classified(404, {}, {"retry-after": "7"}).retry_after is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no such model"}}, "the provider answered 404: no such model"),
        ({"error": "no such model"}, "the provider answered 404: no such model"),
        ({"detail": "Not Found"}, "the provider answered 404: Not Found"),
        ([{"error": {"message": "in a list"}}], "the provider answered 404: in a list"),
        ("<html><head><title>404 Not Found</title></head>", "the provider answered 404: 404 Not Found"),
        ("", "the provider answered 404: no reason given"),
        ({"error": {"message": "two\nlines\u0007"}}, "the provider answered 404: two lines"),
    ],
)
def test_the_reason_is_found_in_any_shape(body: object, words: str) -> None:
    assert str(classified(404, body)) == words


def test_a_long_reason_is_shortened() -> None:
    assert len(str(classified(500, "x" * 10_000))) < 700


def test_a_redirect_is_refused_in_so_many_words() -> None:
    assert "redirect" in str(classified(302, ""))


@pytest.mark.parametrize(
    ("event", "status", "transient"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529, True),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow"}}, 429, True),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "No"}}, 400, False),
        ({"error": {"code": 502, "message": "Provider disconnected"}}, 502, True),
        ({"error": {"code": "server_error", "message": "Oops"}}, 500, True),
        ({"error": {"message": "no code"}}, 500, True),
        ({"error": {"code": "server_is_overloaded", "message": "Later"}}, 503, True),
        ({"error": {"code": "a_code_of_tomorrow", "message": "?"}}, 500, True),
        ({"error": {"code": "invalid_prompt", "message": "No"}}, 400, False),
        ({"error": {"code": "image_too_large", "message": "No"}}, 400, False),
        ({"error": {"code": "unsupported_image_media_type", "message": "No"}}, 400, False),
        ({"error": {"code": "insufficient_quota", "message": "Pay"}}, 429, False),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow", "param": None}, 429, True),
    ],
)
def test_an_error_inside_a_stream_is_classified_by_its_code(event: object, status: int, transient: bool) -> None:
    error = classify_event(json.dumps(event).encode())

    assert (error.status, error.transient) == (status, transient)


def test_an_overflow_inside_a_stream_is_one() -> None:
    event = {"error": {"code": "context_length_exceeded", "message": "too long"}}

    assert isinstance(classify_event(json.dumps(event).encode()), ContextOverflow)


def test_a_cut_stream_is_transient() -> None:
    assert cut().transient


@pytest.mark.spec("PERM-09")
def test_a_key_that_a_provider_repeats_is_taken_out() -> None:
    assert redacted("bad key s3cr3t-s3cr3t", "s3cr3t-s3cr3t") == "bad key ***"
    assert redacted("Incorrect API key provided: sk-proj-abc***xyz.", None) == "Incorrect API key provided: ***."
    assert redacted("skeletons_of keyboards were skipped_twice") == "skeletons_of keyboards were skipped_twice"
    assert "sk-ant" not in str(classified(401, {"error": {"message": "invalid x-api-key sk-ant-api03-abcdef"}}))
