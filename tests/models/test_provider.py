"""A provider's configuration, and asking a model over a real connection."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from retinue.models.known import ModelInfo
from retinue.models.provider import ProviderConfig, WireModel, from_environment
from retinue.models.transport import Transport
from retinue.ports.model import Answer, Delta, Head, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.message import Text, Turn

Serve = Callable[..., Awaitable[tuple[str, list[bytes]]]]
SECRET = "plain-secret-value"
ENV = {"ACME_KEY": SECRET}
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    made = Transport()
    yield made
    await made.close()


def acme(url: str, **changes: object) -> ProviderConfig:
    settings: dict[str, object] = {"name": "acme", "format": "openai-chat", "base_url": f"{url}/v1", "key": "ACME_KEY"}
    return ProviderConfig(**{**settings, **changes})  # pyright: ignore[reportArgumentType] # settings by name


async def ask(
    transport: Transport, config: ProviderConfig, *, deltas: list[Delta] | None = None, stream: bool = True
) -> Answer:
    model = WireModel(config, "m1", transport=transport, env=ENV)
    turn = model.encode_turn(Turn(role="user", parts=(Text(text="hi"),)))
    request = Request(head=model.encode_head(Head(system="s")), turns=[turn], stream=stream)
    return await model.ask(request, None if deltas is None else deltas.append)


def refused(status: int, body: object, headers: str = "") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status} No\r\n{headers}Content-Length: {len(text)}\r\n\r\n".encode() + text


def chunk(text: str, finish: str = "null") -> bytes:
    return f'data: {{"choices":[{{"delta":{{"content":"{text}"}},"finish_reason":{finish}}}]}}\n\n'.encode()


@pytest.mark.spec("MOD-01")
async def test_an_answer_streams_and_the_deltas_of_one_read_are_one(transport: Transport, serve: Serve) -> None:
    url, requests = await serve(OK, chunk("a") + chunk("b") + chunk("ü"), chunk("c", '"stop"') + b"data: [DONE]\n\n")
    deltas: list[Delta] = []

    answer = await ask(transport, acme(url, headers={"X-Team": "blue"}), deltas=deltas)

    assert answer.parts == (Text(text="abüc"),)
    assert "".join(d.text for d in deltas) == "abüc"
    assert len(deltas) <= 3
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions ")
    assert b"Authorization: Bearer plain-secret-value" in head
    assert b"X-Team: blue" in head
    assert json.loads(body)["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]


async def test_a_server_that_does_not_stream_though_asked_to_is_understood(transport: Transport, serve: Serve) -> None:
    body = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'
    url, _ = await serve(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", body)

    assert (await ask(transport, acme(url))).parts == (Text(text="hi"),)


@pytest.mark.spec("MOD-03")
async def test_a_stream_cut_in_the_middle_is_a_transient_failure(transport: Transport, serve: Serve) -> None:
    url, _ = await serve(OK, chunk("a"), b'data: {"choices":[{"del')

    with pytest.raises(ModelError, match="acme/m1") as caught:
        await ask(transport, acme(url))

    assert caught.value.transient


@pytest.mark.spec("MOD-03")
async def test_a_refusal_names_the_model_and_says_when_to_come_back(transport: Transport, serve: Serve) -> None:
    url, _ = await serve(refused(429, {"error": {"message": "slow down"}}, "Retry-After: 7\r\n"))

    with pytest.raises(ModelError, match=r"acme/m1: .*429: slow down") as caught:
        await ask(transport, acme(url))

    assert (caught.value.status, caught.value.transient, caught.value.retry_after) == (429, True, 7.0)


async def test_an_overflow_stays_one(transport: Transport, serve: Serve) -> None:
    url, _ = await serve(refused(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}))

    with pytest.raises(ContextOverflow):
        await ask(transport, acme(url))


@pytest.mark.spec("PERM-09")
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_named_by_its_variable_and_never_shown(
    transport: Transport, serve: Serve, status: int
) -> None:
    url, _ = await serve(refused(status, {"error": {"message": f"bad key {SECRET}"}}))

    with pytest.raises(ModelError) as caught:
        await ask(transport, acme(url))

    error = caught.value
    assert "acme/m1" in str(error)
    assert "ACME_KEY" in str(error)
    assert not error.transient
    assert SECRET not in f"{error!r} {error} {error.hint}"
    assert (error.__context__, error.__cause__) == (None, None)


@pytest.mark.spec("PERM-09")
async def test_a_secret_in_a_header_is_not_repeated_either(transport: Transport, serve: Serve) -> None:
    url, _ = await serve(refused(401, {"error": {"message": "bad token tok3n-of-the-gateway"}}))

    with pytest.raises(ModelError, match=r"bad token \*\*\*"):
        await ask(transport, acme(url, headers={"X-Gateway": "tok3n-of-the-gateway"}))


@pytest.mark.spec("MOD-03")
@pytest.mark.parametrize(
    ("said", "words", "status"),
    [
        (chunk("Hel"), "before the answer was whole", None),
        (chunk("Hel") + b'data: {"error":{"code":"overloaded_error","message":"Overloaded"}}\n\n', "Overloaded", 529),
        (chunk("Hel") + b'data: {"choices":[{"del', "can't be read", None),
    ],
    ids=["ends", "overloaded", "half an event"],
)
async def test_a_stream_that_breaks_in_the_middle_is_worth_another_try(
    transport: Transport, serve: Serve, said: bytes, words: str, status: int | None
) -> None:
    url, _ = await serve(OK, said)

    with pytest.raises(ModelError, match=words) as caught:
        await ask(transport, acme(url))

    assert (caught.value.transient, caught.value.status) == (True, status)


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini"])
async def test_an_error_that_comes_bare_instead_of_a_stream_is_told(
    transport: Transport, serve: Serve, name: str
) -> None:
    url, _ = await serve(OK, b'{"error": {"code": 429,\n "message": "slow down"}}\n')

    with pytest.raises(ModelError, match="429: slow down") as caught:
        await ask(transport, acme(url, format=name))

    assert caught.value.transient


@pytest.mark.spec("MOD-03")
async def test_a_connection_that_drops_in_the_middle_is_worth_another_try(transport: Transport, serve: Serve) -> None:
    url, _ = await serve(OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 9999\r\n\r\n"), chunk("Hel"))

    with pytest.raises(ModelError, match="connection to 127") as caught:
        await ask(transport, acme(url))

    assert caught.value.transient


@pytest.mark.spec("MOD-02")
async def test_a_query_of_the_base_url_stays_at_the_end(transport: Transport, serve: Serve) -> None:
    url, requests = await serve(OK, chunk("a", '"stop"'))
    gemini = b'HTTP/1.1 200 OK\r\n\r\n{"candidates":[{"finishReason":"STOP"}]}'
    other, others = await serve(gemini)

    await ask(transport, acme(url, base_url=f"{url}/openai/deployments/d/?api-version=2026-01-01"))
    await ask(transport, acme(other, format="gemini", base_url=f"{other}/v1beta?team=a"))

    assert requests[0].startswith(b"POST /openai/deployments/d/chat/completions?api-version=2026-01-01 ")
    assert others[0].startswith(b"POST /v1beta/models/m1:streamGenerateContent?alt=sse&team=a ")


@pytest.mark.parametrize(
    ("host", "field"),
    [
        ("https://api.openai.com/v1", b"max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1", b"max_completion_tokens"),
        ("https://openrouter.ai/api/v1", b"max_tokens"),
    ],
)
def test_openai_and_azure_have_a_name_of_their_own_for_the_longest_answer(host: str, field: bytes) -> None:
    model = WireModel(acme("", base_url=host), "m1", transport=Transport(), env=ENV)

    assert b'"%b":7' % field in model.encode_head(Head(system="", max_tokens=7)).data


async def test_a_key_that_is_not_set_is_an_error_before_anything_is_sent(transport: Transport, serve: Serve) -> None:
    url, requests = await serve(OK)

    with pytest.raises(ModelError, match="OTHER_KEY is not set"):
        await ask(transport, acme(url, key="OTHER_KEY"))
    assert requests == []


async def test_a_key_can_come_from_a_function_or_not_at_all(transport: Transport, serve: Serve) -> None:
    url, requests = await serve(OK, chunk("a", '"stop"'))

    await ask(transport, acme(url, key=lambda: "from-a-vault"))
    await ask(transport, acme(url, key=None))

    assert b"Authorization: Bearer from-a-vault" in requests[0]
    assert b"Authorization" not in requests[1]


async def test_an_empty_header_removes_one_of_the_format(transport: Transport, serve: Serve) -> None:
    url, requests = await serve(OK)

    with pytest.raises(ModelError):
        await ask(transport, acme(url, format="anthropic", headers={"anthropic-version": ""}))

    assert requests[0].startswith(b"POST /v1/messages ")
    assert b"anthropic-version" not in requests[0]


def test_secrets_are_not_in_the_representation() -> None:
    config = ProviderConfig(name="a", format="anthropic", key=lambda: SECRET, headers={"X-Secret": SECRET})

    assert SECRET not in repr(config)


@pytest.mark.spec("MOD-02")
def test_the_usual_variables_are_providers() -> None:
    found = from_environment({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"})

    assert [(c.name, c.format, c.host, c.key) for c in found] == [
        ("openai", "openai-responses", "api.openai.com", "OPENAI_API_KEY"),
        ("anthropic", "anthropic", "api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("gemini", "gemini", "generativelanguage.googleapis.com", "GEMINI_API_KEY"),
    ]
    assert from_environment({}) == []


def test_another_base_url_is_a_compatible_server_which_may_need_no_key() -> None:
    found = from_environment({"OPENAI_BASE_URL": "http://localhost:8000/v1", "ANTHROPIC_BASE_URL": "http://proxy"})

    assert [(c.name, c.format, c.url, c.key) for c in found] == [
        ("openai", "openai-chat", "http://localhost:8000/v1", None),
        ("anthropic", "anthropic", "http://proxy", None),
    ]


def model(name: str, config: ProviderConfig) -> WireModel:
    return WireModel(config, name, transport=Transport(), env={})


@pytest.mark.spec("MOD-06")
def test_sizes_and_prices_come_from_the_operator_the_table_or_nobody() -> None:
    openai = ProviderConfig(name="openai", format="openai-chat")
    local = acme("http://127.0.0.1:1", models={"tiny": ModelInfo(window=4000, price_in=1, price_out=2)})

    known = model("gpt-4o", openai)
    assert (known.window, known.max_output, known.format) == (128_000, 16_384, "openai-chat")
    assert known.price(Usage(input=1000, output=100)) == 3_500_000
    tiny, unknown = model("tiny", local), model("huge", local)
    assert (tiny.window, tiny.max_output, tiny.price(Usage(input=10))) == (4000, 8192, 10_000)
    assert (unknown.window, unknown.max_output, unknown.price(Usage(input=10))) == (128_000, 8192, None)


def test_the_price_of_a_maker_is_not_the_price_of_another_provider() -> None:
    resold = model("gpt-4o", acme("https://acme.example"))

    assert resold.window == 128_000
    assert resold.price(Usage(input=10)) is None


def test_openai_gets_its_own_name_for_the_longest_answer() -> None:
    head = Head(system="", max_tokens=5)

    own = model("gpt-4o", ProviderConfig(name="openai", format="openai-chat"))
    other = model("gpt-4o", acme("http://localhost"))
    assert b"max_completion_tokens" in own.encode_head(head).data
    assert b'"max_tokens"' in other.encode_head(head).data


def test_a_format_that_wants_a_longest_answer_gets_the_operators() -> None:
    config = acme("http://localhost", format="anthropic", models={"small": ModelInfo(max_output=2000)})

    assert b'"max_tokens":2000' in model("small", config).encode_head(Head(system="")).data
