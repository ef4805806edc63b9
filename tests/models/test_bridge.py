"""The bridge: other providers' models through pydantic-ai, with the same answers as our own formats give."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from pydantic_ai import exceptions
from pydantic_ai import messages as library
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from retinue.models.bridge import BridgeModel
from retinue.models.provider import ProviderConfig, WireModel
from retinue.models.transport import Transport
from retinue.ports.model import Answer, Delta, Finish, Head, Model, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Media, Opaque, Outcome, Part, Text, Thinking, Turn, calls_of, text_of
from retinue.schema.tool import ToolSpec

pytestmark = pytest.mark.spec("MOD-01")

READ = ToolSpec(
    name="read", description="Reads.", parameters={"type": "object", "properties": {"path": {"type": "string"}}}
)
NAME = "lib/model"


def user(*parts: Part | str) -> Turn:
    return Turn(role="user", parts=tuple(Text(text=p) if isinstance(p, str) else p for p in parts))


def assistant(*parts: Part) -> Turn:
    return Turn(role="assistant", parts=parts)


def asked(model: Model, *turns: Turn, head: Head | None = None, tail: str = "", stream: bool = True) -> Request:
    return Request(
        head=model.encode_head(head or Head(system="Be brief.", tools=(READ,))),
        turns=[model.encode_turn(t) for t in turns],
        tail=tail,
        stream=stream,
    )


class Seen:
    """A model of the library that notes what it was asked and answers with `response`."""

    def __init__(self, response: library.ModelResponse) -> None:
        self.messages: list[library.ModelMessage] = []
        self.info: AgentInfo | None = None
        self._response = response
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[library.ModelMessage], info: AgentInfo) -> library.ModelResponse:
        self.messages, self.info = messages, info
        return self._response

    async def ask(self, *turns: Turn, head: Head | None = None, tail: str = "") -> Answer:
        bridge = BridgeModel(self.model, name=NAME)
        return await bridge.ask(asked(bridge, *turns, head=head, tail=tail, stream=False))


def response(*parts: library.ModelResponsePart, **fields: object) -> library.ModelResponse:
    usage = RequestUsage(
        input_tokens=100,
        cache_read_tokens=60,
        cache_write_tokens=5,
        output_tokens=40,
        details={"reasoning_tokens": 30},
    )
    made = library.ModelResponse(parts=list(parts), usage=usage)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


USAGE = Usage(input=100, output=40, cache_read=60, cache_write=5, thinking=30)


async def test_the_librarys_own_test_model_calls_and_then_answers() -> None:
    bridge = BridgeModel(TestModel(custom_output_text="All done."), name=NAME)
    deltas: list[Delta] = []
    first = await bridge.ask(asked(bridge, user("Go")), deltas.append)
    call = calls_of(first.parts)[0]
    settled = Call(id=CallId("c1"), tool=call.tool, arguments=call.arguments)
    second = await bridge.ask(
        asked(bridge, user("Go"), assistant(settled), user(Outcome(call=CallId("c1"), tool="read", text="ok"))),
        deltas.append,
    )

    assert (call.tool, call.id, first.finish) == ("read", "", "calls")
    assert (text_of(second.parts), second.finish) == ("All done.", "stop")
    assert second.usage.input > 0
    assert [d for d in deltas if d.kind == "call"] == [Delta(kind="call", text="read")]
    assert "".join(d.text for d in deltas if d.kind == "text") == "All done."


async def test_a_model_can_be_named() -> None:
    bridge = BridgeModel("test", name="test/test")

    assert (await bridge.ask(asked(bridge, user("Go"), head=Head(system="")))).finish == "stop"
    await bridge.close()


async def test_a_stream_gives_deltas_and_the_same_answer() -> None:
    async def talk(
        _: list[library.ModelMessage], __: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaThinkingPart] | dict[int, DeltaToolCall]]:
        yield {0: DeltaThinkingPart(content="I should ")}
        yield {0: DeltaThinkingPart(content="look.")}
        yield "Let me "
        yield "see."
        yield {1: DeltaToolCall(name="read", json_args='{"pa', tool_call_id="f1")}
        yield {1: DeltaToolCall(json_args='th":"a"}')}
        yield {2: DeltaToolCall(name="read", json_args="{}", tool_call_id="f2")}

    bridge = BridgeModel(FunctionModel(stream_function=talk), name=NAME)
    deltas: list[Delta] = []
    answer = await bridge.ask(asked(bridge, user("Go")), deltas.append)

    assert answer.parts == (
        Thinking(text="I should look."),
        Text(text="Let me see."),
        Call(id=CallId(""), tool="read", arguments='{"path":"a"}', wire_id="f1"),
        Call(id=CallId(""), tool="read", arguments="{}", wire_id="f2"),
    )
    assert answer.finish == "calls"
    assert [(d.kind, d.text, d.index) for d in deltas] == [
        ("thinking", "I should ", 0),
        ("thinking", "look.", 0),
        ("text", "Let me ", 0),
        ("text", "see.", 0),
        ("call", "read", 0),
        ("call", "read", 1),
    ]


async def test_turns_become_the_librarys_messages() -> None:
    seen = Seen(response(library.TextPart("ok")))
    await seen.ask(
        user("Look.", Media(mime="image/png", data="iVBO")),
        assistant(
            Thinking(text="private"),
            Text(text="Looking."),
            Call(id=CallId("c1"), tool="read", arguments='{"path":"a"}'),
            Call(id=CallId("c2"), tool="read", arguments="{broken"),
        ),
        user(
            Outcome(call=CallId("c1"), tool="read", text="one"),
            Outcome(call=CallId("c2"), tool="read", status="error", text="not JSON"),
            "Go on.",
        ),
        tail="One child runs.",
    )
    first, middle, last = seen.messages

    assert isinstance(first, library.ModelRequest)
    assert [type(p) for p in first.parts] == [library.SystemPromptPart, library.UserPromptPart]
    picture = library.BinaryContent(b"\x89PN", media_type="image/png").data
    prompt = first.parts[1]
    assert isinstance(prompt, library.UserPromptPart)
    assert [c if isinstance(c, str) else getattr(c, "data", None) for c in prompt.content] == ["Look.", picture]
    assert [(type(p), getattr(p, "content", None) or getattr(p, "args", None)) for p in middle.parts] == [
        (library.TextPart, "Looking."),
        (library.ToolCallPart, '{"path":"a"}'),
        (library.ToolCallPart, "{}"),
    ]
    assert [
        (getattr(p, "tool_call_id", None), getattr(p, "outcome", None), getattr(p, "content", None)) for p in last.parts
    ] == [
        ("c1", "success", "one"),
        ("c2", "failed", "error: not JSON"),
        (None, None, "Go on."),
        (None, None, "One child runs."),
    ]


async def test_a_head_becomes_settings_and_tools() -> None:
    seen = Seen(response(library.TextPart("ok")))
    await seen.ask(
        user("Go"),
        head=Head(
            system="",
            tools=(READ,),
            temperature=0.5,
            top_p=0.9,
            max_tokens=1000,
            tool_choice="required",
            parallel_tool_calls=False,
            options=b'{"seed":7}',
        ),
    )

    assert seen.info is not None
    assert seen.info.model_settings == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 1000,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_retries": 0,
        "extra_body": {"seed": 7},
    }
    assert [(t.name, t.description) for t in seen.info.function_tools] == [("read", "Reads.")]


async def test_an_output_schema_is_asked_for_where_the_model_can() -> None:
    seen = Seen(response(library.TextPart("{}")))
    await seen.ask(user("Go"), head=Head(system="", output_schema=b'{"type":"object","properties":{}}'))

    assert seen.info is not None
    wanted = seen.info.model_request_parameters
    assert wanted.output_mode == "native"
    assert wanted.output_object is not None
    assert wanted.output_object.name == "result"


async def test_what_a_provider_wants_back_returns_to_its_model_only() -> None:
    thought = library.ThinkingPart("Hm.", id="rs_1", signature="sig", provider_name="function")
    call = library.ToolCallPart(
        "read", "{}", "f1", provider_name="function", provider_details={"thought_signature": "t"}
    )
    seen = Seen(response(thought, call, provider_name="function", provider_url="http://x"))
    first = await seen.ask(user("Go"))
    thinking, called = first.parts
    assert isinstance(called, Call)
    numbered = Call(id=CallId("c1"), tool="read", arguments="{}", opaque=called.opaque)
    outcome = user(Outcome(call=CallId("c1"), tool="read", text="ok"))
    await seen.ask(user("Go"), assistant(thinking, numbered), outcome)
    back = seen.messages[1]

    assert isinstance(back, library.ModelResponse)
    assert (back.provider_name, back.provider_url) == ("function", "http://x")
    assert isinstance(back.parts[0], library.ThinkingPart)
    assert (back.parts[0].signature, back.parts[0].id) == ("sig", "rs_1")
    assert isinstance(back.parts[1], library.ToolCallPart)
    assert (back.parts[1].tool_call_id, back.parts[1].provider_details) == ("c1", {"thought_signature": "t"})

    assert isinstance(thinking, Thinking)
    assert thinking.opaque is not None
    foreign = Thinking(text="Hm.", opaque=Opaque(format="bridge", model="lib/other", data=thinking.opaque.data))
    await seen.ask(user("Go"), assistant(foreign, Text(text="hi")), user("Go"))
    assert [type(p) for p in seen.messages[1].parts] == [library.TextPart]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "filtered"),
        ("tool_call", "calls"),
        ("error", "other"),
        (None, "stop"),
    ],
)
async def test_how_an_answer_ended(reason: str | None, finish: Finish) -> None:
    seen = Seen(response(library.TextPart("a"), finish_reason=reason))

    assert await seen.ask(user("Go")) == Answer(
        parts=(Text(text="a"),), finish=finish, usage=USAGE, raw_finish=reason or ""
    )


async def test_a_refusal_is_told_in_words() -> None:
    details = {"refusal": "I won't.", "finish_reason": "stop"}
    seen = Seen(response(finish_reason="content_filter", provider_details=details))

    assert await seen.ask(user("Go")) == Answer(
        parts=(Text(text="I won't."),), finish="refusal", usage=USAGE, raw_finish="stop"
    )


@pytest.mark.parametrize(
    ("error", "kind", "transient", "status", "wait"),
    [
        (
            exceptions.ModelHTTPError.for_category(
                exceptions.ModelRateLimitError, status_code=429, model_name="m", headers={"Retry-After": "7"}
            ),
            ModelError,
            True,
            429,
            7.0,
        ),
        (
            exceptions.ModelHTTPError.for_category(
                exceptions.ModelQuotaExceededError, status_code=429, model_name="m", body={"message": "pay"}
            ),
            ModelError,
            False,
            429,
            None,
        ),
        (exceptions.ModelHTTPError(503, "m", {"message": "busy"}), ModelError, True, 503, None),
        (exceptions.ModelHTTPError(401, "m", {"message": "who?"}), ModelError, False, 401, None),
        (
            exceptions.ModelHTTPError(400, "m", {"message": "maximum context length is 8192 tokens"}),
            ContextOverflow,
            False,
            400,
            None,
        ),
        (exceptions.ModelContextWindowExceededError("m", "too long"), ContextOverflow, False, None, None),
        (exceptions.ModelConnectionError("m", "reset"), ModelError, True, None, None),
        (exceptions.UnexpectedModelBehavior("nonsense"), ModelError, True, None, None),
        (exceptions.UserError("no such setting"), ModelError, False, None, None),
    ],
)
async def test_the_librarys_errors_become_ours(
    error: Exception, kind: type[ModelError], transient: bool, status: int | None, wait: float | None
) -> None:
    def fail(_: list[library.ModelMessage], __: AgentInfo) -> library.ModelResponse:
        raise error

    bridge = BridgeModel(FunctionModel(fail), name=NAME)
    with pytest.raises(ModelError) as caught:
        await bridge.ask(asked(bridge, user("Go"), stream=False))

    found = caught.value
    assert (type(found), found.transient, found.status, found.retry_after) == (kind, transient, status, wait)


@pytest.mark.spec("PERM-09")
@pytest.mark.parametrize(
    "error",
    [
        exceptions.ModelHTTPError(401, "m", {"message": "bad my-own-secret"}),
        exceptions.ModelConnectionError("m", "no my-own-secret here"),
    ],
)
async def test_a_key_that_a_provider_repeats_is_in_no_error(error: Exception) -> None:
    def fail(_: list[library.ModelMessage], __: AgentInfo) -> library.ModelResponse:
        raise error

    bridge = BridgeModel(FunctionModel(fail), name=NAME, api_key="my-own-secret")
    with pytest.raises(ModelError, match=r"\*\*\*") as caught:
        await bridge.ask(asked(bridge, user("Go"), stream=False))

    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


async def test_an_unknown_model_and_a_missing_key_are_errors_that_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for wanted, words in (("nobody:nothing", "nobody:nothing"), ("openai-chat:gpt-x", "OPENAI_API_KEY")):
        bridge = BridgeModel(wanted, name="x/y")
        with pytest.raises(ModelError, match=words) as caught:
            await bridge.ask(asked(bridge, user("Go")))
        assert not caught.value.transient


def test_the_library_is_not_loaded_before_it_is_asked() -> None:
    program = (
        "import sys; from retinue.models.bridge import BridgeModel; BridgeModel('groq:x', name='groq/x'); "
        "sys.exit(any(m.startswith('pydantic') for m in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.spec("MOD-02")
async def test_no_more_is_asked_at_a_time_than_the_operator_allows() -> None:
    now = most = 0

    async def answer(_: list[library.ModelMessage], __: AgentInfo) -> library.ModelResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return library.ModelResponse(parts=[library.TextPart("hi")])

    bridge = BridgeModel(FunctionModel(answer), name=NAME, limit=asyncio.Semaphore(2))
    await asyncio.gather(*(bridge.ask(asked(bridge, user("Go"), stream=False)) for _ in range(5)))

    assert most == 2


def test_a_price_is_what_it_is_told() -> None:
    assert BridgeModel("test", name=NAME).price(Usage(input=1)) is None
    assert BridgeModel("test", name=NAME, price=lambda u: u.input * 2).price(Usage(input=3)) == 6


@asynccontextmanager
async def silent_server() -> AsyncGenerator[tuple[str, asyncio.Event, asyncio.Event]]:
    """A server that takes a request, never answers, and notices when the client hangs up."""
    heard, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        heard.set()
        while await reader.read(65536):
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/v1", heard, closed
    finally:
        server.close()
        await server.wait_closed()


async def test_cancelling_closes_the_connection_before_the_first_byte() -> None:
    async with silent_server() as (url, heard, closed):
        bridge = BridgeModel("openai-chat:gpt-x", name="x/gpt-x", base_url=url, api_key="k")
        task = asyncio.create_task(bridge.ask(asked(bridge, user("Go"))))
        await asyncio.wait_for(heard.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 5)
        await bridge.close()


FIXTURE = {
    "match": {"userMessage": "hello"},
    "response": {
        "content": "Let me see.",
        "toolCalls": [
            {"name": "read", "arguments": '{"path":"a.txt"}', "id": "call_1"},
            {"name": "read", "arguments": '{"path":"b.txt"}', "id": "call_2"},
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19},
    },
    "chunkSize": 3,
}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_through_the_bridge_gives_the_same_answer_as_our_own_format(
    aimock: Callable[..., str], stream: bool
) -> None:
    url = f"{aimock(FIXTURE)}/v1"
    transport = Transport()
    config = ProviderConfig(name="sim", format="openai-chat", base_url=url, key=lambda: "key")
    own = WireModel(config, "gpt-4o", transport=transport, env={})
    bridge = BridgeModel("openai-chat:gpt-4o", name="sim/gpt-4o", base_url=url, api_key="key")
    try:
        ours = await own.ask(asked(own, user("hello"), stream=stream))
        theirs = await bridge.ask(asked(bridge, user("hello"), stream=stream))
    finally:
        await transport.close()
        await bridge.close()

    assert theirs == ours
    assert len(calls_of(theirs.parts)) == 2


async def test_the_simulator_hangs_up_in_the_middle(aimock: Callable[..., str]) -> None:
    url = aimock({**FIXTURE, "truncateAfterChunks": 3})
    bridge = BridgeModel("openai-chat:gpt-4o", name="sim/gpt-4o", base_url=f"{url}/v1", api_key="key")
    with pytest.raises(ModelError) as caught:
        await bridge.ask(asked(bridge, user("hello")))
    await bridge.close()

    assert caught.value.transient
