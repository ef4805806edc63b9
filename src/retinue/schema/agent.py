"""An agent's definition as a frozen value: what a file, a row or Python code all become.

Each field is one row of the key table in `retinue.definition.keys`, which holds
aliases, checks and help. Nothing here reads text.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from retinue.schema.ids import AgentId
from retinue.schema.permission import Permissions

Category = Literal["primary", "subagent", "hidden", "all"]
Kind = Literal["local", "remote"]
ExecutionMode = Literal["agentic", "single_shot", "streaming", "planning"]
CompletionMode = Literal["explicit", "response", "binding"]
ContextScope = Literal["FULL", "NONE", "SPECIFIC"]
ReasoningEffort = Literal["low", "medium", "high"]
SandboxMode = Literal["off", "auto", "require"]
AgentType = Literal["ai_human", "dual_ai"]
InputType = Literal["string", "number", "integer", "boolean", "array"]
Json = Mapping[str, object]


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class OpenAIEndpoint(_Value, frozen=True, kw_only=True):
    base_url: str | None = None
    api_key_env_var: str | None = None


class InputSpec(_Value, frozen=True, kw_only=True):
    """One declared input; together they are the JSON Schema of the agent's tool."""

    name: str
    type: InputType = "string"
    items: Literal["string", "number", "integer", "boolean"] | None = None
    enum: tuple[str | int | float | bool, ...] = ()
    description: str = ""
    required: bool = True
    default: object = None


class OutputSpec(_Value, frozen=True, kw_only=True):
    """What `result` must be: `name` replaces the property `result` of the completion tool."""

    name: str = "result"
    description: str = ""
    schema: Json


class Budget(_Value, frozen=True, kw_only=True):
    """Caps for a run and everything below it; `cost` in nano-dollars."""

    cost: int | None = None
    tokens: int | None = None


class Compaction(_Value, frozen=True, kw_only=True):
    at: float = 0.5
    keep: float = 0.3
    off: bool = False


class ToolFilter(_Value, frozen=True, kw_only=True):
    """Which tools are offered: those that match every list of `only` and nothing in `denied`.

    No list means all; an empty list means none. Names are canonical (`read`,
    `bash`, `mcp_<server>_<tool>`) or patterns with `*`.
    """

    only: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()


class ToolOverride(_Value, frozen=True, kw_only=True):
    max_output_length: int | None = None
    timeout: float | None = None
    default_arguments: Json = {}


class McpServer(_Value, frozen=True, kw_only=True):
    """An MCP server defined inline; only trusted sources may."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    auth: Json | None = None
    network: bool = False
    """Whether a stdio server in the sandbox reaches the network; the operator's word, never a file's."""
    type: str | None = None
    """S1's; the transport follows from `command` or `url`."""
    tcp: str | None = None
    """S1's; not supported, and told so."""
    trust: bool = False
    """S1's; kept, never honoured: rules decide."""
    description: str = ""


class Binding(_Value, frozen=True, kw_only=True):
    """A tool that ends a session or publishes its status (S4's SessionToolBinding).

    Without `message_property` the payload is the arguments as JSON.
    """

    name: str
    message_property: str | None = None
    attachments_property: str | None = None


class Side(_Value, frozen=True, kw_only=True):
    prompt: str | None = None
    """A prompt's name; None on side A means the agent's own body."""
    label: str | None = None
    stop_on_response: bool = True
    stop_tool: str | None = None
    stop_tool_response_property: str | None = None
    max_steps: int | None = None
    session_stop: Binding | None = None
    session_fail: Binding | None = None
    session_status: Binding | None = None


class Immediate(_Value, frozen=True, kw_only=True):
    name_env: str | None = None
    description_env: str | None = None
    scoped_env: tuple[str, ...] = ()


class Resumable(_Value, frozen=True, kw_only=True):
    receives_messages: Literal["side_a", "side_b"] = "side_a"
    max_instances: int | None = None
    parent_communication: Literal["implicit", "explicit"] = "implicit"


class Subagent(_Value, frozen=True, kw_only=True):
    """S4's SubagentToolConfig: how one agent is offered to this one."""

    name: str
    blocking: bool = True
    immediate: Immediate | None = None
    optional: str | None = None
    """The environment variable that must be true, 1 or yes."""
    resumable: Resumable | None = None
    init_user_message_property: str | None = None
    init_attachments_property: tuple[str, ...] = ()
    init_agent_name_property: str | None = None


class Prompt(_Value, frozen=True, kw_only=True):
    """A side's system prompt that is not an agent, with settings of its own."""

    name: str
    text: str
    model: str | None = None
    provider: str | None = None
    tools: ToolFilter | None = None
    hooks: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    subagents: tuple[Subagent, ...] = ()


class AgentDefinition(_Value, frozen=True, kw_only=True):
    """Everything a run needs to know of an agent. Compare by value; `hash` names the content."""

    # identity
    id: AgentId
    name: str
    slug: str | None = None
    description: str = ""
    display_name: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    icon: str | None = None
    color: str | None = None
    order: int = 0
    category: Category = "all"
    hidden: bool = False
    exposed: bool = False
    kind: Kind = "local"

    # model
    model: str | None = None
    """None or `inherit`: the caller's."""
    fallback_models: tuple[str, ...] = ()
    provider: str | None = None
    providers: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: ReasoningEffort | None = None
    thinking_budget: int | None = None
    openai: OpenAIEndpoint | None = None
    options: Json = {}

    # prompt
    prompt: str = ""
    """The system prompt: the body, or `system_prompt`."""
    documentation: str = ""
    """The body, when `system_prompt` was given."""
    query: str = "{{prompt}}"
    inputs: tuple[InputSpec, ...] = ()
    variables: Mapping[str, str] = {}
    use_default_prefix: bool = True
    prompts: Mapping[str, Prompt] = {}
    """The prompts that the sides name, resolved when the agent was loaded."""

    # execution
    execution_mode: ExecutionMode = "agentic"
    max_steps: int = 30
    timeout: float = 1800.0
    completion: CompletionMode | None = None
    """None: explicit when called by another agent, binding for dual_ai, else response."""
    output: OutputSpec | None = None
    context_scope: ContextScope = "FULL"
    parallel_tool_calls: bool = True
    budget: Budget = Budget()
    compaction: Compaction | None = None
    """None: the caller's, and at the root the defaults."""

    # tools and rules
    tools: ToolFilter = ToolFilter()
    tool_overrides: Mapping[str, ToolOverride] = {}
    allowed_commands: tuple[str, ...] | None = None
    mcp_servers: tuple[str, ...] | None = None
    """None: those the operator configured, as far as `tools` admits them; empty: none."""
    inline_mcp_servers: Mapping[str, McpServer] = {}
    permissions: Permissions = Permissions()
    sandbox: SandboxMode = "auto"
    taint: Json = {}
    memory_namespace: str | None = None

    # composition
    allowed_agents: tuple[str, ...] | None = None
    can_spawn_subagents: bool = False
    subagents: tuple[Subagent, ...] = ()
    expose_as_tool: bool = False
    tool_description: str | None = None
    max_instances: int | None = None
    max_depth: int | None = None

    # two sides
    type: AgentType = "ai_human"
    side_a: Side = Side()
    side_b: Side | None = None
    max_session_turns: int | None = None

    # environment, packaging, remote
    env: Mapping[str, str] = {}
    hooks: tuple[str, ...] = ()
    package_name: str | None = None
    author: str | None = None
    license: str | None = None
    agent_card_url: str | None = None
    agent_card_json: str | None = None
    auth: Json | None = None

    extra: Json = {}
    """Keys we do not know, kept as they were written."""
    hash: str = ""
    """SHA-256 of the file's bytes, or of the canonical form when there is no file."""
