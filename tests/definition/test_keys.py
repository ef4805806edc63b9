from typing import get_args

import msgspec
import pytest

from retinue.definition.load import Loaded, load_text
from retinue.schema.agent import (
    AgentDefinition,
    Binding,
    Budget,
    Compaction,
    Immediate,
    McpServer,
    OpenAIEndpoint,
    OutputSpec,
    Resumable,
    Side,
    Subagent,
)


def load(front: str, body: str = "Do it.") -> Loaded:
    return load_text(f"---\n{front}\n---\n{body}\n", file="dir/a.md")


def agent(front: str, body: str = "Do it.") -> AgentDefinition:
    loaded = load(front, body)
    assert loaded.definition is not None, loaded.problems
    return loaded.definition


@pytest.mark.spec("DEF-03")
@pytest.mark.parametrize(
    ("front", "field", "value"),
    [
        ("title: T", "display_name", "T"),
        ("version: 1.10", "version", "1.10"),
        ("tags: a, b", "tags", ("a", "b")),
        ("examples: [x, 'y, z']", "examples", ("x", "y, z")),
        ("iconEmoji: 💻", "icon", "💻"),
        ("displayOrder: 3", "order", 3),
        ("mode: subagent", "category", "subagent"),
        ("Category: Primary", "category", "primary"),
        ("isVisible: false", "hidden", True),
        ("hidden: yes", "hidden", True),
        ("exposed: true", "exposed", True),
        ("modelId: m", "model", "m"),
        ("model: Claude Sonnet 4.5 (copilot)", "model", "Claude Sonnet 4.5 (copilot)"),
        ("providerId: p", "provider", "p"),
        ("providers: [p, q]", "providers", ("p", "q")),
        ("temp: 0.1", "temperature", 0.1),
        ("top_p: 1", "top_p", 1.0),
        ("maxTokens: 16000", "max_tokens", 16000),
        ("effort: xhigh", "reasoning_effort", "high"),
        ("thinking_budget: 0", "thinking_budget", 0),
        (
            "openai: {base_url: 'https://x/v1', api_key_env_var: K}",
            "openai",
            OpenAIEndpoint(base_url="https://x/v1", api_key_env_var="K"),
        ),
        ("options: {a: [1, {b: null}]}", "options", {"a": [1, {"b": None}]}),
        ("query: 'Look at ${x}'", "query", "Look at ${x}"),
        ("promptVariables: {a: 1, b: x}", "variables", {"a": "1", "b": "x"}),
        ("useDefaultSystemPrefix: false", "use_default_prefix", False),
        ("executionMode: SingleShot", "execution_mode", "single_shot"),
        ("max_turns: 5", "max_steps", 5),
        ("maxIterations: '5'", "max_steps", 5),
        ("steps: 5", "max_steps", 5),
        ("timeout: 300", "timeout", 300.0),
        ("timeout: 1h30m", "timeout", 5400.0),
        ("timeout: '00:05:00'", "timeout", 300.0),
        ("timeout_mins: 10", "timeout", 600.0),
        ("timeoutMins: 90s", "timeout", 90.0),
        ("maxExecutionMinutes: 15", "timeout", 900.0),
        ("timeoutSeconds: 15", "timeout", 15.0),
        ("max_time_minutes: 0.5", "timeout", 30.0),
        ("completion: explicit", "completion", "explicit"),
        ("output: {name: n, schema: {type: object}}", "output", OutputSpec(name="n", schema={"type": "object"})),
        (
            "outputConfig: {outputName: n, description: d, schema: {}}",
            "output",
            OutputSpec(name="n", description="d", schema={}),
        ),
        ("contextScope: none", "context_scope", "NONE"),
        ("parallel_tool_calls: off", "parallel_tool_calls", False),
        ("budget: $2", "budget", Budget(cost=2_000_000_000)),
        ("budget: 0.1", "budget", Budget(cost=100_000_000)),
        ("budget: {cost: '$2.50', tokens: 1000}", "budget", Budget(cost=2_500_000_000, tokens=1000)),
        ("compaction: false", "compaction", Compaction(off=True)),
        ("compaction: {at: 0.8}", "compaction", Compaction(at=0.8)),
        ("allowed_commands: [git *, make]", "allowed_commands", ("git *", "make")),
        ("allowed_commands: []", "allowed_commands", ()),
        ("mcpServers: [a, b]", "mcp_servers", ("a", "b")),
        ("mcpServers: a, b", "mcp_servers", ("a", "b")),
        ("mcpServers: []", "mcp_servers", ()),
        ("mcpServers:", "mcp_servers", ()),
        ("mcpServers: {a: {command: x, disabled: true}}", "mcp_servers", ()),
        ("name: a", "mcp_servers", None),
        (
            "mcp-servers: {a: {type: local, command: npx, args: [x], tools: ['*']}}",
            "inline_mcp_servers",
            {"a": McpServer(command="npx", args=("x",))},
        ),
        ("mcpServers: [{name: a, command: x}]", "inline_mcp_servers", {"a": McpServer(command="x")}),
        ("mcpServers: {a: {command: x, disabled: true}}", "inline_mcp_servers", {}),
        (
            "mcpServers: [{a: {url: 'https://a', headers: {K: v}}}]",
            "inline_mcp_servers",
            {"a": McpServer(url="https://a", headers={"K": "v"})},
        ),
        ("sandbox: require", "sandbox", "require"),
        ("sandbox: off", "sandbox", "off"),
        ("taint: {send: deny}", "taint", {"send": "deny"}),
        ("memory_namespace: n", "memory_namespace", "n"),
        ("allowedSubagentTypes: [a]", "allowed_agents", ("a",)),
        ("agents: []", "allowed_agents", ()),
        (
            "subagents: [a, {name: b, blocking: false}]",
            "subagents",
            (Subagent(name="a"), Subagent(name="b", blocking=False)),
        ),
        ("exposeAsTool: true", "expose_as_tool", True),
        ("toolDescription: t", "tool_description", "t"),
        ("maxInstances: 2", "max_instances", 2),
        ("max_depth: 0", "max_depth", 0),
        ("env: {A: b}", "env", {"A": "b"}),
        ("hooks: [a, b]", "hooks", ("a", "b")),
        ("packageName: p", "package_name", "p"),
        ("user-invocable: false", "category", "subagent"),
    ],
)
def test_each_key_fills_its_field(front: str, field: str, value: object) -> None:
    loaded = load(f"description: d\n{front}")

    assert loaded.definition is not None, loaded.problems
    assert getattr(loaded.definition, field) == value
    assert loaded.problems == ()


@pytest.mark.spec("DEF-03")
def test_a_list_of_models_is_one_and_its_fallbacks() -> None:
    definition = agent("model: [a, b, c]")

    assert (definition.model, definition.fallback_models) == ("a", ("b", "c"))


@pytest.mark.spec("DEF-03")
@pytest.mark.parametrize(
    "front",
    [
        "temperature: hot",
        "temperature: 3",
        "top_p: -1",
        "max_steps: 0",
        "max_steps: 1.5",
        "timeout: soon",
        "timeout: -5",
        "timeout: 0",
        "budget: lots",
        "budget: .inf",
        "execution_mode: fast",
        "context_scope: SOME",
        "slug: Not A Slug",
        "exposed: maybe",
        "sandbox: none",
        "model: {a: b}",
        "model: []",
        "openai: x",
        "env: {A: [b]}",
        "allowed_agents: {a: b}",
        "mcpServers: {a: {}}",
        "mcpServers: {a: {command: x, url: y}}",
        "mcpServers: {a: b}",
        "subagents: [{blocking: true}]",
        "inputs: {a: {type: thing}}",
        "inputs: {a: {type: integer, default: x}}",
        "side_a: x",
        "hooks: [[a]]",
        "agent_card_url: not a url",
        "auth: {type: magic}",
        "kind: remote",
        "kind: local\nagent_card_url: https://x/card",
        "agent_card_url: https://x/card\nagent_card_json: '{}'",
        "agent_card_json: '['",
    ],
)
def test_a_value_that_does_not_fit_refuses_the_file(front: str) -> None:
    loaded = load(f"description: d\n{front}")

    assert loaded.definition is None
    assert all(p.line in (2, 3, 4) and p.message for p in loaded.problems)


@pytest.mark.spec("DEF-13")
def test_a_side_has_every_key_and_default_of_s4() -> None:
    front = """type: dual_ai
max_session_turns: 9
side_a: {}
side_b:
  prompt: critic
  label: Critic
  stopOnResponse: false
  stopTool: done
  stopToolResponseProperty: text
  maxSteps: 4
  sessionStop: approve
  sessionFail: {name: reject, messageProperty: why, attachmentsProperty: files}
  sessionStatus: {name: status}"""
    definition = agent(front)

    assert definition.side_a == Side()
    assert definition.side_a.stop_on_response
    assert definition.side_b == Side(
        prompt="critic",
        label="Critic",
        stop_on_response=False,
        stop_tool="done",
        stop_tool_response_property="text",
        max_steps=4,
        session_stop=Binding(name="approve"),
        session_fail=Binding(name="reject", message_property="why", attachments_property="files"),
        session_status=Binding(name="status"),
    )


@pytest.mark.spec("SUB-06")
def test_a_subagent_has_every_knob_of_s4() -> None:
    front = """subagents:
  a:
    blocking: false
    immediate: {nameEnv: N, descriptionEnv: D, scopedEnv: [S, T]}
    optional: FLAG
    resumable: {receives_messages: side_b, maxInstances: 3, parentCommunication: explicit}
    initUserMessageProperty: m
    initAttachmentsProperty: files
    initAgentNameProperty: n
  b: {immediate: true, resumable: false, initAttachmentsProperty: [x, y]}
  c:"""

    assert agent(front).subagents == (
        Subagent(
            name="a",
            blocking=False,
            immediate=Immediate(name_env="N", description_env="D", scoped_env=("S", "T")),
            optional="FLAG",
            resumable=Resumable(receives_messages="side_b", max_instances=3, parent_communication="explicit"),
            init_user_message_property="m",
            init_attachments_property=("files",),
            init_agent_name_property="n",
        ),
        Subagent(name="b", immediate=Immediate(), init_attachments_property=("x", "y")),
        Subagent(name="c"),
    )


def test_every_field_has_the_type_its_struct_declares() -> None:
    front = """description: d
model: [a, b]
tags: [x]
tools: {mode: only_these, list: [read], overrides: {read: {timeout: 1s}}}
inputs: {a: {type: "string[]", default: [x]}}
output: {schema: {}}
mcp_servers: [a, {b: {command: c, timeout: 5}}]
side_a: {session_stop: x}
subagents: [{name: s, immediate: true}]
auth: {type: oauth}
agent_card_url: https://x/y"""
    definition = agent(front)

    assert msgspec.convert(msgspec.to_builtins(definition), AgentDefinition) == definition
    assert get_args(AgentDefinition.__annotations__["category"])[0] == "primary"
