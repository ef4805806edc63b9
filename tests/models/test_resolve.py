"""Which model an agent gets."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from retinue.models.known import ModelInfo
from retinue.models.names import ALIASES
from retinue.models.provider import ProviderConfig, from_environment
from retinue.models.resolve import ProviderModels
from retinue.ports.model import Candidate, Head, Request
from retinue.schema.agent import AgentDefinition, OpenAIEndpoint
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.ids import AgentId
from retinue.schema.message import Text, Turn

ENV = {"OPENAI_API_KEY": "k1", "ANTHROPIC_API_KEY": "k2", "GEMINI_API_KEY": "k3"}
ROUTER = ProviderConfig(
    name="openrouter", format="openai-chat", base_url="https://openrouter.ai/api/v1", key="ROUTER_KEY"
)
LOCAL = ProviderConfig(
    name="local",
    format="openai-chat",
    base_url="http://127.0.0.1:8000/v1",
    models={"llama3": ModelInfo(window=8000, max_output=1000), "Qwen2.5": ModelInfo()},
    default_model="llama3",
    mapping={"claude-sonnet-5-5": "Qwen2.5"},
)


def agent(
    model: str | None = None,
    provider: str | None = None,
    providers: tuple[str, ...] = (),
    fallback_models: tuple[str, ...] = (),
    openai: OpenAIEndpoint | None = None,
) -> AgentDefinition:
    return AgentDefinition(
        id=AgentId("team/a"),
        name="a",
        model=model,
        provider=provider,
        providers=providers,
        fallback_models=fallback_models,
        openai=openai,
    )


def models(*extra: ProviderConfig, default_model: str | None = None, **aliases: str) -> ProviderModels:
    configs = [*from_environment(ENV), *extra]
    return ProviderModels(configs, aliases=aliases, default_model=default_model, env=ENV)


def found(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.model.name for candidate in candidates]


@pytest.mark.spec("MOD-02")
@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("OpenAI/gpt-4o", "openai/gpt-4o"),
        ("google/gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("openrouter/x-ai/grok-4", "openrouter/x-ai/grok-4"),
        ("openrouter/anthropic/claude-sonnet-4.5", "openrouter/anthropic/claude-sonnet-4.5"),
        ("anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("gpt-4o", "openai/gpt-4o"),
        ("GPT-4.1", "openai/gpt-4.1"),
        ("o3", "openai/o3"),
        ("gemini-2.0-flash", "gemini/gemini-2.0-flash"),
        ("claude-sonnet-4-20250514", "anthropic/claude-sonnet-4-20250514"),
        ("sonnet", f"anthropic/{ALIASES['sonnet']}"),
        ("OPUS", f"anthropic/{ALIASES['opus']}"),
        ("Claude Sonnet 4.5 (copilot)", "anthropic/claude-sonnet-4-5"),
        ("Claude Sonnet 4", "anthropic/claude-sonnet-4-0"),
        ("claude-4.6-opus-high-thinking", "anthropic/claude-opus-4-6"),
        ("GPT-5 mini (copilot)", "openai/gpt-5-mini"),
        ("llama3", "local/llama3"),
        ("qwen2.5", "local/Qwen2.5"),
        ("Cheap", "local/llama3"),
    ],
)
def test_a_model_is_found_by_the_name_it_is_given(model: str, name: str) -> None:
    candidates = models(ROUTER, LOCAL, cheap="local/llama3").resolve(agent(model))

    assert found(candidates) == [name]
    assert candidates[0].note is None


@pytest.mark.spec("MOD-02")
def test_the_operators_aliases_come_before_the_shipped_ones() -> None:
    assert found(models(LOCAL, Sonnet="local/llama3").resolve(agent("sonnet"))) == ["local/llama3"]


def test_an_alias_that_names_itself_ends() -> None:
    with pytest.raises(ModelError):
        models(loop="pool", pool="loop").resolve(agent("loop"))


@pytest.mark.spec("MOD-02")
@pytest.mark.parametrize("model", [None, "inherit", "Inherit"])
def test_no_model_of_its_own_is_the_callers_or_else_the_default(model: str | None) -> None:
    known = models(default_model="openai/gpt-4o")

    assert found(known.resolve(agent(model), inherited="anthropic/claude-x")) == ["anthropic/claude-x"]
    assert found(known.resolve(agent(model))) == ["openai/gpt-4o"]
    assert found(known.resolve(agent(model), asked="gemini/g")) == ["gemini/g"]


def test_what_is_asked_for_comes_before_the_definition() -> None:
    assert found(models().resolve(agent("gpt-4o"), asked="haiku", inherited="o3")) == [f"anthropic/{ALIASES['haiku']}"]


def test_a_callers_model_that_is_not_here_gives_way_to_the_default_and_says_so() -> None:
    candidates = models(default_model="openai/gpt-4o").resolve(agent(), inherited="gone/model-1")

    assert found(candidates) == ["openai/gpt-4o"]
    assert candidates[0].note is not None
    assert "gone/model-1" in candidates[0].note


@pytest.mark.spec("MOD-02")
def test_nothing_to_choose_from_is_an_error_that_lists_what_is_configured() -> None:
    with pytest.raises(ModelError) as caught:
        models(LOCAL).resolve(agent())

    text = str(caught.value)
    assert "team/a" in text
    assert "openai (any model)" in text
    assert "local (llama3, Qwen2.5)" in text
    assert caught.value.hint is not None
    assert "default_model" in caught.value.hint
    assert not caught.value.transient


def test_the_list_shows_which_key_is_missing() -> None:
    with pytest.raises(ModelError, match="ROUTER_KEY is not set"):
        models(ROUTER).resolve(agent())


def test_without_any_provider_the_error_says_how_to_get_one() -> None:
    with pytest.raises(ModelError, match="no provider") as caught:
        ProviderModels([]).resolve(agent("sonnet"))

    assert caught.value.hint is not None
    assert "ANTHROPIC_API_KEY" in caught.value.hint


@pytest.mark.spec("MOD-02")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("opencode/grok-code", "no configured provider offers 'opencode/grok-code'"),
        ("local/gpt-4o", "provider 'local' has no model 'gpt-4o', only llama3, Qwen2.5"),
        ("anthropic/gpt-4o", "provider 'anthropic' has no model 'gpt-4o'"),
        ("<preferred-model>", "no configured provider offers"),
    ],
)
def test_an_unknown_model_fails_when_it_is_resolved(model: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        models(LOCAL).resolve(agent(model))

    assert words in str(caught.value)


def test_a_name_that_two_providers_list_must_say_which() -> None:
    other = ProviderConfig(
        name="other", format="openai-chat", base_url="http://o.example", models={"llama3": ModelInfo()}
    )

    with pytest.raises(ModelError, match="may be meant of local or other"):
        models(LOCAL, other).resolve(agent("llama3"))


def test_a_single_server_without_a_list_is_asked_for_anything() -> None:
    server = ProviderConfig(name="box", format="openai-chat", base_url="http://box:11434/v1")

    assert found(ProviderModels([server]).resolve(agent("gpt-oss:20b"))) == ["box/gpt-oss:20b"]
    assert found(models(server).resolve(agent("qwen3"))) == ["box/qwen3"]


def test_a_proxy_that_speaks_a_makers_format_has_the_makers_models() -> None:
    proxy = ProviderConfig(name="work", format="anthropic", base_url="https://proxy.example")

    assert found(ProviderModels([proxy]).resolve(agent("sonnet"))) == [f"work/{ALIASES['sonnet']}"]


@pytest.mark.spec("MOD-02")
def test_providers_are_tried_in_order_and_a_substitute_is_noted() -> None:
    candidates = models(ROUTER, LOCAL).resolve(agent("sonnet", providers=("anthropic", "openrouter", "local")))

    sonnet = ALIASES["sonnet"]
    assert found(candidates) == [f"anthropic/{sonnet}", f"openrouter/{sonnet}", "local/Qwen2.5"]
    assert [c.note for c in candidates] == [
        None,
        f"a fallback of anthropic/{sonnet}",
        f"{sonnet} is Qwen2.5 at local",
    ]


@pytest.mark.spec("MOD-02")
def test_a_fallback_without_the_model_uses_its_default() -> None:
    candidates = models(LOCAL).resolve(agent("gpt-4o", providers=("openai", "local")))

    assert found(candidates) == ["openai/gpt-4o", "local/llama3"]
    assert candidates[1].note == "local has no gpt-4o; its default_model llama3 is used"


def test_a_provider_without_the_model_and_without_a_default_is_left_out() -> None:
    (first,) = models().resolve(agent("gpt-4o", providers=("openai", "anthropic", "nobody")))
    (second,) = models().resolve(agent("gpt-4o", providers=("nobody", "openai")))

    assert (first.model.name, first.note) == ("openai/gpt-4o", None)
    assert (second.model.name, second.note) == ("openai/gpt-4o", "a fallback: provider 'nobody' is not configured")


def test_a_provider_of_its_own_decides_where_an_inherited_model_is_asked() -> None:
    candidates = models(ROUTER, LOCAL, default_model="openai/gpt-4o").resolve(agent(provider="openrouter"))

    assert found(candidates) == ["openrouter/gpt-4o"]


def test_a_provider_without_a_model_gives_its_default() -> None:
    assert found(models(LOCAL).resolve(agent(provider="local"))) == ["local/llama3"]


def test_a_model_that_names_its_provider_is_first_asked_there() -> None:
    candidates = models(ROUTER).resolve(agent("openai/gpt-4o", providers=("openrouter", "openai")))

    assert found(candidates) == ["openai/gpt-4o", "openrouter/gpt-4o"]


def test_a_list_of_models_is_a_list_of_candidates() -> None:
    candidates = models().resolve(agent("gpt-4o", fallback_models=("sonnet", "acme-1", "gpt-4o")))

    assert found(candidates) == ["openai/gpt-4o", f"anthropic/{ALIASES['sonnet']}"]
    assert candidates[1].note == "a fallback of openai/gpt-4o"


def test_the_first_of_a_list_that_is_there_is_taken() -> None:
    candidates = models().resolve(agent("MAI-Code-1-Flash (copilot)", fallback_models=("gpt-4o",)))

    assert found(candidates) == ["openai/gpt-4o"]
    assert candidates[0].note is not None
    assert "MAI-Code-1-Flash" in candidates[0].note


PAIR = ("https://api.x.example/v1", "X_API_KEY")
OWN = OpenAIEndpoint(base_url=PAIR[0], api_key_env_var=PAIR[1])


@pytest.mark.spec("MOD-07")
def test_a_file_may_not_send_a_key_to_a_host_of_its_choice() -> None:
    with pytest.raises(ModelError, match=r"https://api\.x\.example/v1") as caught:
        models().resolve(agent("grok-beta", openai=OWN), trusted=False)

    assert caught.value.hint is not None
    assert "allowed_endpoints" in caught.value.hint


@pytest.mark.spec("MOD-07")
@pytest.mark.parametrize(
    "endpoint",
    [
        OpenAIEndpoint(base_url=PAIR[0], api_key_env_var="OPENAI_API_KEY"),
        OpenAIEndpoint(base_url="https://evil.example/v1", api_key_env_var=PAIR[1]),
        OpenAIEndpoint(base_url="https://evil.example/v1"),
        OpenAIEndpoint(api_key_env_var="AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_only_the_pair_that_the_operator_listed_is_honoured(endpoint: OpenAIEndpoint) -> None:
    known = ProviderModels(from_environment(ENV), env=ENV, allowed_endpoints=[PAIR])

    with pytest.raises(ModelError, match="has not allowed"):
        known.resolve(agent("grok-beta", openai=endpoint), trusted=False)
    assert found(known.resolve(agent("grok-beta", openai=OWN), trusted=False)) == ["api.x.example/grok-beta"]


@pytest.mark.spec("MOD-07")
def test_a_trusted_file_may_name_its_endpoint() -> None:
    known = models()

    assert found(known.resolve(agent("openai/grok-beta", openai=OWN), trusted=True)) == ["api.x.example/grok-beta"]
    assert found(known.resolve(agent("x", openai=OWN), asked="anthropic/claude-x")) == ["anthropic/claude-x"]


def test_a_child_inherits_a_model_of_its_callers_endpoint_but_can_not_name_it() -> None:
    known = models()
    (caller,) = found(known.resolve(agent("grok-beta", openai=OWN), trusted=True))

    assert found(known.resolve(agent(), inherited=caller, trusted=False)) == [caller]
    with pytest.raises(ModelError):
        known.resolve(agent(caller), trusted=False)


@pytest.mark.spec("MOD-07")
def test_a_child_inherits_a_model_of_an_allowed_endpoint_in_another_process_too() -> None:
    known = ProviderModels(from_environment(ENV), env=ENV, allowed_endpoints=[PAIR])

    assert found(known.resolve(agent(), inherited="api.x.example/grok-beta", trusted=False)) == [
        "api.x.example/grok-beta"
    ]
    with pytest.raises(ModelError):
        known.resolve(agent("api.x.example/grok-beta"), trusted=False)


def test_a_model_is_made_once() -> None:
    known = models()

    assert known.resolve(agent("gpt-4o"))[0].model is known.resolve(agent("openai/gpt-4o"))[0].model


@pytest.mark.spec("MOD-07")
def test_a_pair_without_a_url_is_openais() -> None:
    known = ProviderModels([], env=ENV, allowed_endpoints=[("", "TEAM_KEY")])
    own = OpenAIEndpoint(api_key_env_var="TEAM_KEY")

    assert found(known.resolve(agent("gpt-4o", openai=own), trusted=False)) == ["api.openai.com/gpt-4o"]


@pytest.mark.spec("MOD-02")
async def test_a_provider_is_asked_no_more_at_a_time_than_the_operator_allows() -> None:
    now = most = 0
    go = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"POST /v1/chat/completions" in head
        now += 1
        most = max(most, now)
        if now == 2:
            go.set()
        await go.wait()
        now -= 1
        body = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    config = ProviderConfig(name="box", format="openai-chat", base_url=url, concurrency=2)
    known = ProviderModels([config])
    model = known.resolve(agent("box/m"))[0].model
    turn = model.encode_turn(Turn(role="user", parts=(Text(text="hi"),)))
    request = Request(head=model.encode_head(Head(system="")), turns=[turn], stream=False)
    async with server, asyncio.timeout(10):
        answers = await asyncio.gather(*(model.ask(request) for _ in range(6)))
        await known.close()

    assert [a.parts for a in answers] == [(Text(text="hi"),)] * 6
    assert most == 2


def test_a_script_is_a_provider_too(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("answers:\n  - text: Hello.\n")
    config = ProviderConfig(name="toy", format="scripted", base_url=str(script))

    assert found(ProviderModels([config]).resolve(agent("toy/x"))) == ["toy/x"]


async def test_other_providers_are_reached_through_the_bridge_which_is_not_loaded_before_it_is_asked() -> None:
    config = ProviderConfig(name="groq", format="bridge", key="GROQ_API_KEY")
    known = ProviderModels([config])

    (candidate,) = known.resolve(agent("groq/llama-3.3-70b-versatile"))

    assert (candidate.model.name, candidate.model.format) == ("groq/llama-3.3-70b-versatile", "bridge")
    assert candidate.model.price(Usage(input=1000)) is not None
    await known.close()
