import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
Write = Callable[..., Path]

BROKEN = "---\ndescription: d\ntools: true\n---\nx\n"


def _row(text: str, start: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(start))


@pytest.mark.spec("REG-01", "REG-02")
def test_list_shows_every_source_with_what_is_broken_and_untrusted(run: Run, write: Write) -> None:
    write("agents/mine.md")
    write("agents/bad.md", BROKEN)

    ran = run("agents", "list")

    assert ran.returncode == 0
    assert _row(ran.stdout, "AGENT") == ["AGENT", "CATEGORY", "SOURCE", "STATUS", "DESCRIPTION"]
    assert _row(ran.stdout, "mine") == ["mine", "all", "project:agents", "untrusted", "Helps."]
    assert _row(ran.stdout, "bad")[:4] == ["bad", "-", "project:agents", "error"]
    assert _row(ran.stdout, "coder")[:4] == ["coder", "primary", "builtin", "ok"]
    assert "compaction" not in ran.stdout
    assert "1 broken, 1 untrusted" in ran.stderr


@pytest.mark.spec("REG-09")
def test_list_takes_a_category_a_source_and_everything(run: Run, write: Write) -> None:
    write("agents/coder.md")

    by_category = json.loads(run("agents", "list", "--category", "primary", "--json").stdout)
    by_source = json.loads(run("agents", "list", "--source", "project", "--json").stdout)
    everything = json.loads(run("agents", "list", "--all", "--json").stdout)

    assert {a["category"] for a in by_category} == {"primary"}
    assert [a["id"] for a in by_source] == ["coder"]
    assert [(a["origin"], a["shadowed_by"]) for a in everything if a["id"] == "coder"] == [
        ("project:agents", None),
        ("builtin", "project:agents"),
    ]
    assert "compaction" in [a["id"] for a in everything]
    assert run("agents", "list", "--category", "nonsense").returncode == 2


def test_list_prints_an_array_of_whole_objects(run: Run, write: Write) -> None:
    write("agents/mine.md")

    [agent] = json.loads(run("agents", "list", "--source", "project:agents", "--json").stdout)

    hash = agent.pop("hash")
    assert len(hash) == 64
    assert agent == {
        "id": "mine",
        "name": "mine",
        "description": "Helps.",
        "category": "all",
        "kind": "local",
        "hidden": False,
        "source": "project",
        "origin": "project:agents",
        "repository": None,
        "commit": None,
        "priority": "local",
        "location": "agents/mine.md",
        "status": "untrusted",
        "trusted": False,
        "problems": [],
        "shadowed_by": None,
    }


def test_show_tells_the_definition_where_it_is_from_what_it_shadows_and_its_problems(run: Run, write: Write) -> None:
    write("agents/coder.md", "---\ndescription: Mine.\nnonsense: 1\n---\nYou code.\n")

    ran = run("agents", "show", "coder")
    as_json = json.loads(run("agents", "show", "coder", "--json").stdout)

    assert ran.returncode == 0
    assert "description  Mine." in ran.stdout
    assert "shadows      coder of builtin" in ran.stdout
    assert "You code." in ran.stdout
    assert "agents/coder.md:3:1: unknown-key" in ran.stdout
    assert as_json["definition"]["prompt"] == "You code."
    assert [s["origin"] for s in as_json["shadows"]] == ["builtin"]
    assert [(p["code"], p["line"]) for p in as_json["problems"]] == [("unknown-key", 3)]


def test_show_raw_prints_the_file_as_it_is(run: Run, write: Write) -> None:
    text = "---\ndescription:   Mine.\n---\n\nYou \t code.\n\n"
    write("agents/mine.md", text)

    assert run("agents", "show", "mine", "--raw").stdout == text


def test_show_works_for_a_broken_agent(run: Run, write: Write) -> None:
    write("agents/bad.md", BROKEN)

    ran = run("agents", "show", "bad")

    assert ran.returncode == 0
    assert "agents/bad.md:3:8: everything" in ran.stdout


@pytest.mark.spec("REG-08")
def test_resolve_prints_s0s_resolved_agent_and_each_place_that_was_tried(
    run: Run, repository: Callable[..., Path]
) -> None:
    agent = "---\ndescription: Feels.\n---\nx\n"
    where = repository({"nlp/sentiment/prompt.md": agent})
    assert run("repos", "add", str(where), "--name", "experimental").returncode == 0
    assert run("repos", "sync").returncode == 0

    resolved = json.loads(run("agents", "resolve", "experimental/nlp/sentiment", "--json").stdout)

    assert {k: resolved[k] for k in ("id", "source", "repository", "isNamespaced", "priority")} == {
        "id": "experimental/nlp/sentiment",
        "source": "git",
        "repository": "experimental",
        "isNamespaced": True,
        "priority": "namespaced",
    }
    assert len(resolved["commit"]) == 40
    assert resolved["agent"]["description"] == "Feels."
    assert [(p["source"], p["outcome"]) for p in resolved["tried"]] == [
        ("project", "absent"),
        ("project:agents", "absent"),
        ("user", "absent"),
        ("git:experimental", "found"),
        ("builtin", "absent"),
    ]


@pytest.mark.spec("REG-02")
@pytest.mark.parametrize("words", [("agents", "list"), ("agents", "trust"), ("run", "zebra", "go")])
def test_agents_of_other_tools_that_are_not_read_are_pointed_out_until_they_are(
    run: Run, write: Write, project: Path, words: tuple[str, ...]
) -> None:
    write(".claude/agents/zebra.md")
    hint = "for the agents in .claude/agents: foreign_dirs = true in retinue.toml"

    assert hint in run(*words).stderr
    (project / "retinue.toml").write_text("foreign_dirs = true\n")
    assert hint not in run(*words).stderr
    assert "zebra" in run("agents", "list").stdout


@pytest.mark.spec("REG-08")
def test_resolve_of_nothing_says_where_it_looked_and_what_is_near(run: Run) -> None:
    ran = run("agents", "resolve", "codr")
    as_json = run("agents", "resolve", "codr", "--json")

    assert ran.returncode == as_json.returncode == 1
    assert "retinue: there is no agent 'codr': looked for id, folded id and name in project, " in ran.stderr
    assert ran.stderr.endswith("  did you mean coder?\n")
    assert json.loads(as_json.stdout)["near"] == ["coder"]


@pytest.mark.spec("REG-01", "REG-02")
def test_resolve_of_an_untrusted_agent_fails_and_says_what_it_hides(run: Run, write: Write) -> None:
    write("agents/coder.md")

    ran = run("agents", "resolve", "coder")

    assert ran.returncode == 1
    assert "coder of project:agents (agents/coder.md) is not trusted yet; it hides coder of builtin" in ran.stderr
    assert run("agents", "resolve", "builtin:coder").returncode == 0


def test_what_files_say_is_not_trusted_with_the_terminal(run: Run, write: Write) -> None:
    write("agents/x.md", '---\ndescription: "a\\e[31mb"\n---\nYou \x1b]0;title\x07 help.\n')

    assert "\x1b" not in run("agents", "show", "x").stdout + run("agents", "list").stdout


@pytest.mark.spec("REG-02")
def test_folders_of_other_tools_are_read_when_enabled(run: Run, write: Write, home: Path) -> None:
    for folder in (".claude/agents", ".factory/droids", "extra"):
        write(f"{folder}/x{len(folder)}.md")
    person = home.parent / "person" / ".gemini" / "agents"
    person.mkdir(parents=True)
    (person / "mine.md").write_text("---\ndescription: d\n---\nx\n")

    def sources() -> set[str]:
        return {a["origin"] for a in json.loads(run("agents", "list", "--json").stdout)} - {"builtin"}

    assert sources() == set()
    write("retinue.toml", 'foreign_dirs = true\nagent_dirs = ["extra", "../outside"]\n')
    assert sources() == {"project:.claude/agents", "project:.factory/droids", "project:extra"}
    home.mkdir(exist_ok=True)
    (home / "retinue.toml").write_text("foreign_dirs = true\n")
    assert "user:.gemini/agents" in sources()
