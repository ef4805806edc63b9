import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
Write = Callable[..., Path]

BROKEN = "---\ndescription: d\ntools: true\n---\nx\n"
GEMINI = "---\nname: my-agent\ndescription: d\nkind: local\nmax_turns: 20\ntimeout_mins: 10\n---\n\nBody  stays.\n"


def _lines(ran: CompletedProcess[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.spec("DEF-14")
def test_validate_prints_one_object_a_line_and_fails_on_errors(run: Run, write: Write) -> None:
    write("agents/bad.md", BROKEN)
    write("agents/good.md")
    write("agents/odd.md", "---\ndescription: d\nnonsense: 1\n---\nx\n")
    write("agents/README.md", "# no agent\n")
    write("agents/_draft.md")

    ran = run("agents", "validate", "agents", "--json")

    assert ran.returncode == 1
    by_file = {str(line["file"]): line for line in _lines(ran)}
    assert {file: (line["id"], line["status"]) for file, line in by_file.items()} == {
        "agents/README.md": ("README", "skipped"),
        "agents/_draft.md": (None, "skipped"),
        "agents/bad.md": ("bad", "error"),
        "agents/good.md": ("good", "ok"),
        "agents/odd.md": ("odd", "warning"),
    }
    [problem] = json.loads(json.dumps(by_file["agents/bad.md"]["problems"]))
    assert problem.keys() == {"code", "severity", "line", "message", "hint"}
    assert (problem["code"], problem["severity"], problem["line"]) == ("everything", "error", 3)


@pytest.mark.spec("DEF-14")
def test_validate_prints_lines_that_editors_understand_and_a_summary(run: Run, write: Write) -> None:
    write("agents/bad.md", BROKEN)
    write("agents/good.md")

    ran = run("agents", "validate", "agents/bad.md", "agents/good.md")

    assert ran.returncode == 1
    assert ran.stdout.startswith("agents/bad.md:3:8: everything 'tools' is true; wanted")
    assert ran.stderr == "2 files: 1 ok, 1 error\n"


@pytest.mark.spec("DEF-14")
def test_warnings_fail_only_when_strict_and_a_missing_path_is_wrong_usage(run: Run, write: Write) -> None:
    write("agents/odd.md", "---\ndescription: d\nnonsense: 1\n---\nx\n")

    assert run("agents", "validate", "agents").returncode == 0
    assert run("agents", "validate", "agents", "--strict").returncode == 1
    assert run("agents", "validate", "nowhere").returncode == 2
    assert run("agents", "validate").returncode == 2


@pytest.mark.spec("DEF-05")
def test_a_file_without_frontmatter_is_an_error_when_it_is_named(run: Run, write: Write) -> None:
    write("agents/README.md", "# no agent\n")

    assert run("agents", "validate", "agents").returncode == 0
    assert run("agents", "validate", "agents/README.md").returncode == 1


@pytest.mark.spec("DEF-04")
def test_validate_reports_the_second_file_of_an_id(run: Run, write: Write) -> None:
    write("agents/a/prompt.md")
    write("agents/a.md")

    ran = run("agents", "validate", "agents")

    assert "agents/a.md:1:1: duplicate-id has the id 'a' of agents/a/prompt.md, which comes first" in ran.stdout


@pytest.mark.spec("DEF-15")
def test_validate_takes_a_profile(run: Run, write: Write) -> None:
    write("agents/x.md")

    ran = run("agents", "validate", "agents", "--profile", "kodelet")

    assert ran.returncode == 1
    assert "provider" in ran.stdout and "max_tokens" in ran.stdout


@pytest.mark.spec("DEF-14")
def test_fmt_rewrites_frontmatter_and_leaves_the_body(run: Run, write: Write) -> None:
    file = write("agents/x.md", GEMINI)

    checked = run("agents", "fmt", "--check", "agents/x.md")
    shown = run("agents", "fmt", "--diff", "agents/x.md")
    untouched = file.read_text()
    written = run("agents", "fmt", "agents/x.md")
    again = run("agents", "fmt", "--check", "agents/x.md")

    assert (checked.returncode, shown.returncode, written.returncode, again.returncode) == (1, 0, 0, 0)
    assert untouched == GEMINI
    assert "-max_turns: 20" in shown.stdout and "+max_steps: 20" in shown.stdout
    assert "max_steps: 20" in file.read_text()
    assert file.read_text().endswith("---\n\nBody  stays.\n")


@pytest.mark.spec("DEF-14")
def test_fmt_leaves_a_broken_file_alone_and_fails(run: Run, write: Write) -> None:
    file = write("agents/bad.md", BROKEN)

    ran = run("agents", "fmt", "agents/bad.md")

    assert ran.returncode == 1
    assert "everything" in ran.stdout
    assert file.read_text() == BROKEN


@pytest.mark.spec("DEF-14", "REG-02")
def test_new_writes_an_agent_that_is_valid_and_runs_because_you_made_it(run: Run, project: Path) -> None:
    ran = run("agents", "new", "sales/helper", "--description", "Sells.")

    file = project / ".retinue" / "agents" / "sales" / "helper.md"
    assert ran.returncode == 0
    assert run("agents", "validate", "--strict", str(file)).returncode == 0
    assert run("agents", "resolve", "sales/helper").returncode == 0
    assert run("agents", "new", "sales/helper").returncode == 2
    assert run("agents", "new", "../x").returncode == 2


@pytest.mark.spec("DEF-14")
def test_new_can_write_to_the_users_own_folder(run: Run, home: Path) -> None:
    assert run("agents", "new", "mine", "--user").returncode == 0
    assert (home / "agents" / "mine.md").exists()


@pytest.mark.spec("DEF-14")
def test_schema_prints_the_json_schema(run: Run) -> None:
    schema = json.loads(run("agents", "schema").stdout)

    assert {"name", "description", "tools", "permissions"} <= schema["properties"].keys()
