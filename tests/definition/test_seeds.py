"""Every definition printed in the documents the product was conceived from, as it is printed there.

Markdown loads unchanged; TypeScript and C# samples load as the Python or JSON that says the same.
"""

import msgspec
import pytest

from retinue.definition.code import define_agent
from retinue.definition.load import load_fields, load_text
from retinue.schema.agent import AgentDefinition, Binding, InputSpec, OutputSpec, Prompt, Side, ToolFilter
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

CUSTOMER_SUPPORT = """---
name: "CustomerSupportAgent"
description: "Handles customer inquiries about orders, returns, and account issues"
version: "2.1.0"
tags: ["customer-support", "tier-1", "orders"]
model: "gpt-4-turbo"
providers: ["openai_gpt4"]
mcpServers: ["order-management", "customer-db", "refund-processor"]
allowedAgents: ["BillingSpecialist", "EscalationManager"]
examples:
  - "Help customer with order status inquiry"
  - "Process return request for damaged item"
---

You are a Tier 1 Customer Support Agent for an e-commerce platform...

## Available Tools
Your tools will be automatically injected based on configured MCP servers.

## Available Agents
You can delegate to: {{allowed_agents}}

Your task: {{prompt}}
"""

SALES_ASSISTANT = """---
name: "SalesAssistant"
description: "Helps with sales inquiries and lead qualification"
version: "1.3.0"
tags: ["sales", "lead-qualification", "customer-engagement"]
model: "gpt-4-turbo"
providers: ["openai_gpt4", "anthropic_claude"]
mcpServers: ["crm-tools", "email-templates", "calendar-integration"] 
allowedAgents: ["sales/proposal-generator", "external/legal-reviewer"]
examples:
  - "Qualify this lead for our enterprise product"
  - "Generate a follow-up email for this prospect"
  - "Schedule a demo call with the customer"
contextScope: "FULL"
maxExecutionMinutes: 15
---

You are a Sales Assistant AI specialized in lead qualification and customer engagement.

## Available Agents
You can delegate specialized tasks to: {{allowed_agents}}

Your task: {{prompt}}
"""

MY_AGENT = """---
name: my-agent
description: Agent description
display_name: My Agent # optional
kind: local
tools: # optional
  - read_file
  - grep
system_prompt: 'You are an agent specialized in...'
model: gemini-2.0-flash # optional, defaults to parent model
temperature: 0.1 # optional
max_turns: 20 # optional
timeout_mins: 10 # optional
---

# Agent Documentation (optional)

Additional markdown content describing your agent.
"""

PR_REVIEW = """---
name: pr_review_agent
description: This is a PR review agent
allowed_tools: [bash, file_edit, file_read, file_write, grep_tool, glob_tool]
provider: "openai"
model: "o3"
reasoning_effort: high
max_tokens: 16000
allowed_commands:
  - git *
  - npm test
  - make lint
---

You are a code review expert. Your task is to review pull requests thoroughly...
<the rest of the system prompt>
"""


def load(text: str) -> tuple[AgentDefinition, tuple[Problem, ...]]:
    loaded = load_text(text, file="sample.md", id=AgentId("sample"))
    assert loaded.definition is not None, loaded.problems
    return msgspec.structs.replace(loaded.definition, hash=""), loaded.problems


@pytest.mark.spec("DEF-01")
def test_the_support_agent_of_s0_loads_as_printed() -> None:
    definition, problems = load(CUSTOMER_SUPPORT)

    assert problems == ()
    assert definition == AgentDefinition(
        id=AgentId("sample"),
        name="CustomerSupportAgent",
        description="Handles customer inquiries about orders, returns, and account issues",
        version="2.1.0",
        tags=("customer-support", "tier-1", "orders"),
        model="gpt-4-turbo",
        providers=("openai_gpt4",),
        mcp_servers=("order-management", "customer-db", "refund-processor"),
        allowed_agents=("BillingSpecialist", "EscalationManager"),
        can_spawn_subagents=True,
        examples=("Help customer with order status inquiry", "Process return request for damaged item"),
        prompt=CUSTOMER_SUPPORT.split("---\n", 2)[2].strip(),
    )


@pytest.mark.spec("DEF-01")
def test_the_sales_agent_of_s0_loads_as_printed() -> None:
    definition, problems = load(SALES_ASSISTANT)

    assert problems == ()
    assert (definition.context_scope, definition.timeout) == ("FULL", 900.0)
    assert definition.providers == ("openai_gpt4", "anthropic_claude")
    assert definition.allowed_agents == ("sales/proposal-generator", "external/legal-reviewer")
    assert len(definition.examples) == 3


@pytest.mark.spec("DEF-01")
def test_the_markdown_agent_of_s1_loads_as_printed() -> None:
    definition, problems = load(MY_AGENT)

    assert problems == ()
    assert definition == AgentDefinition(
        id=AgentId("sample"),
        name="my-agent",
        description="Agent description",
        display_name="My Agent",
        tools=ToolFilter(only=(("read", "grep"),)),
        prompt="You are an agent specialized in...",
        documentation="# Agent Documentation (optional)\n\nAdditional markdown content describing your agent.",
        model="gemini-2.0-flash",
        temperature=0.1,
        max_steps=20,
        timeout=600.0,
    )


@pytest.mark.spec("DEF-01")
def test_the_agent_of_s2_loads_as_printed() -> None:
    definition, problems = load(PR_REVIEW)

    assert problems == ()
    assert definition.tools == ToolFilter(only=(("bash", "edit", "read", "write", "grep", "glob"),))
    assert definition.allowed_commands == ("git *", "npm test", "make lint")
    assert (definition.provider, definition.model, definition.reasoning_effort) == ("openai", "o3", "high")
    assert load_text(PR_REVIEW, file="sample.md", profile="kodelet").definition is not None


S1_TYPESCRIPT: dict[str, object] = {
    "kind": "local",
    "name": "my_agent",
    "description": "Agent description",
    "inputConfig": {
        "inputs": {"target": {"type": "string", "description": "Target to analyze", "required": True}},
    },
    "outputConfig": {
        "outputName": "analysis",
        "description": "Analysis result",
        "schema": {"type": "object", "properties": {"result": {"type": "string"}, "confidence": {"type": "number"}}},
    },
    "promptConfig": {"systemPrompt": "You are...", "query": "Analyze ${target}"},
    "modelConfig": {"model": "gemini-2.0-flash", "temp": 0.1, "top_p": 0.95},
    "runConfig": {"max_time_minutes": 10, "max_turns": 20},
    "toolConfig": {"tools": ["ls", "read_file"]},
}


@pytest.mark.spec("DEF-01", "DEF-03")
def test_the_typescript_agent_of_s1_loads_as_fields_and_from_python() -> None:
    loaded = load_fields(S1_TYPESCRIPT, file="config")
    named = {k: v for k, v in S1_TYPESCRIPT.items() if k not in ("name", "description")}
    in_python = define_agent(name="my_agent", description="Agent description", **named).definition  # pyright: ignore[reportArgumentType] - S1's groups are free keywords

    assert loaded.problems == ()
    assert loaded.definition is not None
    assert msgspec.structs.replace(loaded.definition, hash="") == AgentDefinition(
        id=AgentId("my-agent"),
        name="my_agent",
        description="Agent description",
        inputs=(InputSpec(name="target", description="Target to analyze"),),
        output=OutputSpec(
            name="analysis",
            description="Analysis result",
            schema={"type": "object", "properties": {"result": {"type": "string"}, "confidence": {"type": "number"}}},
        ),
        prompt="You are...",
        query="Analyze ${target}",
        model="gemini-2.0-flash",
        temperature=0.1,
        top_p=0.95,
        timeout=600.0,
        max_steps=20,
        tools=ToolFilter(only=(("list", "read"),)),
    )
    assert in_python == loaded.definition


@pytest.mark.spec("DEF-01", "REG-13")
def test_the_json_agent_of_s3_loads_as_printed() -> None:
    custom: dict[str, object] = {
        "Name": "Custom Coder",
        "Slug": "custom-coder",
        "Description": "Project-specific coding assistant",
        "Category": "Primary",
        "ProviderId": "openai",
        "ModelId": "gpt-4o",
        "SystemPrompt": "You are a .NET specialist...",
        "CanSpawnSubagents": True,
        "MaxIterations": 40,
        "Tools": {"Mode": "AllExcept", "ToolList": []},
        "IconEmoji": "🔧",
        "Color": "#8B5CF6",
    }
    loaded = load_fields(custom, file="config")

    assert loaded.problems == ()
    assert loaded.definition is not None
    assert msgspec.structs.replace(loaded.definition, hash="") == AgentDefinition(
        id=AgentId("custom-coder"),
        name="Custom Coder",
        slug="custom-coder",
        description="Project-specific coding assistant",
        category="primary",
        provider="openai",
        model="gpt-4o",
        prompt="You are a .NET specialist...",
        can_spawn_subagents=True,
        max_steps=40,
        icon="🔧",
        color="#8B5CF6",
    )


@pytest.mark.spec("DEF-01")
@pytest.mark.parametrize(
    ("fields", "mode", "filter"),
    [
        ({"Category": "Primary", "ExecutionMode": "Agentic", "Tools": {"Mode": "All"}}, "agentic", ToolFilter()),
        (
            {
                "ExecutionMode": "Planning",
                "Tools": {"Mode": "OnlyThese", "ToolList": ["read", "todo", "task", "question"]},
            },
            "planning",
            ToolFilter(only=(("read", "todo", "task", "question"),)),
        ),
        (
            {"Category": "Hidden", "IsVisible": False, "ExecutionMode": "SingleShot", "Tools": {"Mode": "None"}},
            "single_shot",
            ToolFilter(only=((),)),
        ),
        ({"Tools": {"Mode": "AllExcept", "ToolList": ["task"]}}, "agentic", ToolFilter(denied=("task",))),
    ],
)
def test_the_built_in_agents_of_s3_can_be_said_in_its_words(
    fields: dict[str, object], mode: str, filter: ToolFilter
) -> None:
    loaded = load_fields({"Name": "X", "Description": "d", "SystemPrompt": "p", **fields}, file="config")

    assert loaded.problems == ()
    assert loaded.definition is not None
    assert (loaded.definition.execution_mode, loaded.definition.tools) == (mode, filter)


@pytest.mark.spec("DEF-01", "DEF-13")
def test_the_two_sided_agent_of_s4_loads_from_python_and_as_frontmatter() -> None:
    sides: dict[str, object] = {
        "type": "dual_ai",
        "maxSessionTurns": 40,
        "exposeAsTool": True,
        "toolDescription": "Generate and QA top-down game assets.",
        "sideA": {
            "label": "Worker",
            "prompt": "asset_worker",
            "stopOnResponse": True,
            "sessionFail": {
                "name": "fail_asset",
                "messageProperty": "reason",
                "attachmentsProperty": "attachments",
            },
        },
        "sideB": {
            "label": "Reviewer",
            "prompt": "asset_reviewer",
            "stopOnResponse": False,
            "sessionStop": {
                "name": "approve_asset",
                "messageProperty": "summary",
                "attachmentsProperty": "attachments",
            },
            "sessionStatus": {"name": "update_asset_status", "messageProperty": "status"},
        },
    }
    definition = define_agent(name="asset_subagent", **sides).definition  # pyright: ignore[reportArgumentType] - S4's keys are free keywords
    front = msgspec.json.encode({"name": "asset_subagent", **sides}).decode()
    prompts = {"asset_worker": "Work.", "asset_reviewer": "Review."}
    written = load_text(f"---\n{front}\n---\n", file="asset-subagent.md", prompts=prompts.get).definition

    assert (definition.type, definition.max_session_turns, definition.expose_as_tool) == ("dual_ai", 40, True)
    assert definition.side_a == Side(
        label="Worker",
        prompt="asset_worker",
        session_fail=Binding(name="fail_asset", message_property="reason", attachments_property="attachments"),
    )
    assert definition.side_b == Side(
        label="Reviewer",
        prompt="asset_reviewer",
        stop_on_response=False,
        session_stop=Binding(name="approve_asset", message_property="summary", attachments_property="attachments"),
        session_status=Binding(name="update_asset_status", message_property="status"),
    )
    assert written is not None
    assert written.prompts == {name: Prompt(name=name, text=text) for name, text in prompts.items()}
    assert msgspec.structs.replace(written, hash=definition.hash, prompts={}) == definition
