import pytest

from retinue.definition.load import Loaded, load_text
from retinue.schema.agent import AgentDefinition, Subagent, ToolFilter, ToolOverride
from retinue.schema.permission import Rule


def load(front: str, known_tools: tuple[str, ...] = ()) -> Loaded:
    return load_text(f"---\ndescription: d\n{front}\n---\nDo it.\n", file="a.md", known_tools=known_tools)


def agent(front: str, known_tools: tuple[str, ...] = ()) -> AgentDefinition:
    loaded = load(front, known_tools)
    assert loaded.definition is not None, loaded.problems
    return loaded.definition


def rules(front: str) -> list[tuple[str, str, str]]:
    return [(r.tool, r.pattern, r.verdict) for r in agent(front).permissions.rules]


@pytest.mark.spec("TOOL-02", "DEF-07")
@pytest.mark.parametrize(
    ("front", "filter"),
    [
        ("color: red", ToolFilter()),
        ('tools: "*"', ToolFilter()),
        ("tools: ['*']", ToolFilter()),
        ("tools: all", ToolFilter()),
        ("tools:", ToolFilter(only=((),))),
        ('tools: ""', ToolFilter(only=((),))),
        ("tools: []", ToolFilter(only=((),))),
        ("tools: Read, Grep", ToolFilter(only=(("read", "grep"),))),
        ("tools: [Read, read_file, LS]", ToolFilter(only=(("read", "list"),))),
        ("tools: [NoSuchTool, skill]", ToolFilter(only=((),))),
        ("tools: Read, Grep\nallowed_tools: [grep, bash]", ToolFilter(only=(("read", "grep"), ("grep", "bash")))),
        ("allowedTools: [read, shell]", ToolFilter(only=(("read", "bash"),))),
        ("disallowedTools: Write, NoSuchTool", ToolFilter(denied=("write", "NoSuchTool"))),
        ("tools: {write: false, edit: false, bash: true}", ToolFilter(denied=("write", "edit"))),
        ("tools: {'*': false, read: true, grep: yes}", ToolFilter(only=(("read", "grep"),))),
        ("tools: {'mymcp_*': false}", ToolFilter(denied=("mymcp_*",))),
        ("tools: {mode: AllExcept, toolList: [task]}", ToolFilter(denied=("task",))),
        ("tools: {Mode: OnlyThese, ToolList: [read]}", ToolFilter(only=(("read",),))),
        ("tools: {mode: none}", ToolFilter(only=((),))),
        ("tools: {mode: all, list: [read]}", ToolFilter()),
        ("readonly: true", ToolFilter(denied=("edit", "write", "bash"))),
        ("permissionMode: plan", ToolFilter(denied=("edit", "write", "bash"))),
        ("tools: [MultiEdit, memory]", ToolFilter(only=(("edit", "save_memory", "load_memory"),))),
    ],
)
def test_every_way_to_list_tools_ends_in_one_filter(front: str, filter: ToolFilter) -> None:
    assert agent(front).tools == filter


@pytest.mark.spec("DEF-06")
@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("mcp__context7__get-library-docs", "mcp_context7_get-library-docs"),
        ("mcp__github", "mcp_github_*"),
        ("mcp_files_*", "mcp_files_*"),
        ("mcp_*", "mcp_*"),
        ("github/*", "mcp_github_*"),
        ("GitHub MCP/*", "mcp_GitHub_MCP_*"),
        ("com.microsoft/azure/search", "mcp_com_microsoft_azure_search"),
        ("@git", "mcp_git_*"),
        ("@git/status", "mcp_git_status"),
    ],
)
def test_mcp_tools_have_one_name_in_every_dialect(written: str, name: str) -> None:
    assert agent(f'tools: ["{written}"]').tools.only == ((name,),)


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize("value", ["true", "*", "Read, *", "yes: no: maybe"])
def test_a_shape_that_could_mean_everything_is_an_error(value: str) -> None:
    loaded = load(f"tools: {value}")

    assert loaded.definition is None
    assert loaded.problems[0].code in ("everything", "bad-yaml")


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "front",
    [
        "tools: false",
        "tools: 3",
        "tools: [1]",
        "tools: [[a]]",
        "tools: {a: maybe}",
        "disallowedTools:",
        "disallowedTools: true",
    ],
)
def test_a_list_of_tools_is_never_guessed_at(front: str) -> None:
    assert load(front).definition is None


@pytest.mark.spec("DEF-06")
def test_a_pattern_offers_the_tool_asks_for_its_calls_and_allows_the_pattern() -> None:
    definition = agent("tools: Read, Bash(git diff:*), Bash(npm test)")

    assert definition.tools.only == (("read", "bash"),)
    assert definition.permissions.rules == (
        Rule(tool="bash", pattern="*", verdict="ask", origin="a.md:3"),
        Rule(tool="bash", pattern="git diff *", verdict="allow", origin="a.md:3"),
        Rule(tool="bash", pattern="npm test", verdict="allow", origin="a.md:3"),
    )


@pytest.mark.spec("DEF-06")
@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("tools: Bash(*)", []),
        ("tools: Bash, Bash(git:*)", [("bash", "git *", "allow")]),
        (
            "tools: Bash(git diff:*, git log:*)",
            [("bash", "*", "ask"), ("bash", "git diff *", "allow"), ("bash", "git log *", "allow")],
        ),
        ("tools: Write(docs/**)", [("edit", "*", "ask"), ("edit", "docs/*", "allow")]),
        ("tools: WebFetch(domain:x.org)", [("webfetch", "*", "ask"), ("webfetch", "https://x.org/*", "allow")]),
        ("tools: 'Agent(a, b)'", [("task", "*", "ask"), ("task", "a", "allow"), ("task", "b", "allow")]),
        (
            "disallowedTools: Bash(rm:*), WebFetch(domain:x.org)",
            [("bash", "rm *", "deny"), ("webfetch", "*x.org*", "deny")],
        ),
    ],
)
def test_patterns_of_other_tools_become_rules(front: str, expected: list[tuple[str, str, str]]) -> None:
    assert rules(front) == expected


@pytest.mark.spec("DEF-07")
def test_denying_rules_come_after_everything_else() -> None:
    front = "disallowedTools: Bash(rm:*)\npermission: {bash: allow}\ntools: Bash(git:*)"

    assert rules(front)[-2:] == [("bash", "*", "allow"), ("bash", "rm *", "deny")]


@pytest.mark.spec("DEF-07", "DEF-08")
def test_an_unknown_tool_is_dropped_where_allowed_and_kept_where_denied() -> None:
    loaded = load("tools:\n  - Read\n  - Foo\n  - Skill\ndisallowedTools: [Bar]")

    assert [(p.code, p.line, p.column) for p in loaded.problems] == [
        ("unknown-tool", 5, 5),
        ("unavailable-tool", 6, 5),
        ("unknown-tool", 7, 19),
    ]
    assert loaded.definition is not None
    assert loaded.definition.tools == ToolFilter(only=(("read",),), denied=("Bar",))


@pytest.mark.spec("DEF-07")
def test_python_tools_that_are_known_may_be_listed() -> None:
    assert agent("tools: [crm_lookup]", known_tools=("crm_lookup",)).tools.only == (("crm_lookup",),)


@pytest.mark.spec("DEF-03")
def test_overrides_come_from_either_place() -> None:
    front = """tools: {mode: all, overrides: {Bash: {timeout: 2m, maxOutputLength: 100}}}
tool_overrides:
  grep: {default_arguments: {path: src}}"""

    assert agent(front).tool_overrides == {
        "bash": ToolOverride(timeout=120.0, max_output_length=100),
        "grep": ToolOverride(default_arguments={"path": "src"}),
    }


@pytest.mark.spec("SUB-06")
def test_a_subagent_may_stand_in_the_list_of_tools() -> None:
    definition = agent("tools:\n  - read\n  - {name: helper, blocking: false}")

    assert definition.tools.only == (("read",),)
    assert definition.subagents == (Subagent(name="helper", blocking=False),)
    assert definition.can_spawn_subagents
