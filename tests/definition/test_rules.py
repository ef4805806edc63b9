import pytest

from retinue.definition.load import Loaded, load_text
from retinue.schema.permission import Permissions, Rule


def load(front: str) -> Loaded:
    return load_text(f"---\ndescription: d\n{front}\n---\nDo it.\n", file="a.md")


def rules(front: str) -> list[tuple[str, str, str]]:
    loaded = load(front)
    assert loaded.definition is not None, loaded.problems
    return [(r.tool, r.pattern, r.verdict) for r in loaded.definition.permissions.rules]


@pytest.mark.spec("DEF-06")
def test_an_opencode_map_keeps_its_order() -> None:
    front = """permission:
  "*": deny
  edit: ask
  bash:
    "*": ask
    "git *": allow
  webfetch: allow
  task: {"*": deny, explore: allow}"""

    assert rules(front) == [
        ("*", "*", "deny"),
        ("edit", "*", "ask"),
        ("bash", "*", "ask"),
        ("bash", "git *", "allow"),
        ("webfetch", "*", "allow"),
        ("task", "*", "deny"),
        ("task", "explore", "allow"),
    ]


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("{write: deny}", [("edit", "*", "deny")]),
        ("{edit: deny, write: allow}", [("edit", "*", "deny")]),
        ("{write: deny, edit: allow}", [("edit", "*", "allow"), ("edit", "*", "deny")]),
        ("{edit: allow, multiedit: ask}", [("edit", "*", "allow"), ("edit", "*", "ask")]),
    ],
)
def test_writing_and_editing_are_one_category_and_the_stricter_word_holds(
    front: str, expected: list[tuple[str, str, str]]
) -> None:
    assert rules(f"permission: {front}") == expected


@pytest.mark.spec("DEF-06", "DEF-07")
@pytest.mark.parametrize(
    ("tool", "pattern", "verdict", "patterns"),
    [
        ("edit", "**/*", "deny", ["*"]),
        ("edit", "**/*.env*", "deny", ["*.env*"]),
        ("read", "src/**/secret", "deny", ["src/*secret"]),
        ("edit", "**/*.md", "allow", ["*.md"]),
        ("edit", "src/**/*.ts", "allow", ["src/*.ts"]),
        ("read", "src/**/test", "allow", ["src/test", "src/*/test"]),
        ("read", "docs/**", "allow", ["docs/*"]),
        ("bash", "rm **/x", "deny", ["rm **/x"]),
    ],
)
def test_globs_that_cross_folders_cover_the_top_folder_too(
    tool: str, pattern: str, verdict: str, patterns: list[str]
) -> None:
    assert rules(f'permission: {{{tool}: {{"{pattern}": {verdict}}}}}') == [(tool, p, verdict) for p in patterns]


@pytest.mark.spec("DEF-07")
def test_a_command_in_the_place_of_a_tool_only_tightens() -> None:
    assert rules('permission: {bash: ask, "rm -rf *": deny, "git push *": allow}') == [
        ("bash", "*", "ask"),
        ("bash", "rm -rf *", "deny"),
    ]


@pytest.mark.spec("DEF-07")
def test_an_unknown_tool_keeps_its_rule_and_is_told_once() -> None:
    loaded = load('permission: {skill: {"*": deny, a: allow}, nosuch: deny}')

    assert [p.code for p in loaded.problems] == ["unavailable-tool", "unknown-tool"]
    assert loaded.definition is not None
    assert [r.tool for r in loaded.definition.permissions.rules] == ["skill", "skill", "nosuch"]


@pytest.mark.spec("DEF-03")
def test_our_own_form_names_a_ruleset_a_default_and_rules() -> None:
    front = """permissions:
  ruleset: explorer
  default: ask
  rules:
    - {tool: bash, pattern: "ls *", verdict: allow, reason: harmless}
    - {tool: Write, verdict: deny}"""
    definition = load(front).definition

    assert definition is not None
    assert definition.permissions == Permissions(
        ruleset="explorer",
        default="ask",
        rules=(
            Rule(tool="bash", pattern="ls *", verdict="allow", reason="harmless", origin="a.md:7"),
            Rule(tool="edit", verdict="deny", origin="a.md:8"),
        ),
    )


@pytest.mark.spec("DEF-03")
def test_rules_of_s3_are_sorted_by_priority() -> None:
    front = """permissions:
  - {pattern: "bash:rm *", action: Deny, priority: 9}
  - {pattern: bash, action: Allow}"""

    assert rules(front) == [("bash", "*", "allow"), ("bash", "rm *", "deny")]


@pytest.mark.spec("DEF-06")
def test_three_lists_of_claude_code_end_with_the_strictest() -> None:
    front = "permissions: {deny: ['Bash(rm:*)', Write], allow: ['Bash(git:*)'], ask: [WebFetch]}"

    assert rules(front) == [
        ("bash", "git *", "allow"),
        ("webfetch", "*", "ask"),
        ("bash", "rm *", "deny"),
        ("edit", "*", "deny"),
    ]


@pytest.mark.spec("DEF-03")
def test_one_word_is_a_ruleset_or_a_verdict_for_everything() -> None:
    definition = load("permissions: planner").definition

    assert definition is not None
    assert definition.permissions == Permissions(ruleset="planner")
    assert rules("permission: deny") == [("*", "*", "deny")]


@pytest.mark.spec("DEF-07")
@pytest.mark.parametrize(
    "value",
    [
        "allow",
        "",
        "3",
        "{bash: maybe}",
        "{bash: true}",
        "{bash: {a: {b: allow}}}",
        "{ruleset: mine}",
        "[bash]",
        "[{tool: bash}]",
    ],
)
def test_permissions_are_never_guessed_at(value: str) -> None:
    assert load(f"permissions: {value}").definition is None


@pytest.mark.spec("DEF-08")
def test_a_bad_verdict_is_found_at_its_own_place() -> None:
    (problem,) = load('permission:\n  bash:\n    "*": ask\n    "git *": alow').problems

    assert (problem.code, problem.line, problem.column) == ("bad-value", 6, 14)
    assert problem.message == "'permission.bash' is 'alow'; wanted allow, ask or deny"


@pytest.mark.spec("DEF-06")
def test_paths_and_commands_of_kiro_become_rules() -> None:
    front = """toolsSettings:
  fs_write: {allowedPaths: [docs/**], deniedPaths: [docs/secret]}
  execute_bash: {allowedCommands: [git status], autoApprove: true}"""
    loaded = load(front)

    assert [p.code for p in loaded.problems] == ["not-honoured"]
    assert rules(front) == [
        ("edit", "*", "ask"),
        ("edit", "docs/*", "allow"),
        ("bash", "*", "ask"),
        ("bash", "git status", "allow"),
        ("edit", "docs/secret", "deny"),
    ]
