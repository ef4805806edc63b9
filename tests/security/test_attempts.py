"""Attempts to get round the rules: by quoting, wrappers, variables, patterns, options and folders."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from retinue.policy.calls import Authority, judge_call
from retinue.policy.files import Place
from retinue.policy.rules import Tier
from retinue.ports.tool import Op, Target
from retinue.sandbox.targets import notable_matches, resolve
from retinue.schema.permission import Rule

Table = Callable[[str], list[tuple[str, str, str]]]
ALLOWED = (
    "git ls cat find echo cp mv tee touch mkdir dd truncate sed awk sort uniq xxd tar unzip gzip patch wget chmod "
    "chown split install ln shred printf env read wc head tail grep rg diff cut bash"
)
RULES = (
    *(Rule(tool="bash", pattern=f"{name} *", verdict="allow") for name in ALLOWED.split()),
    Rule(tool="bash", pattern="npm test", verdict="allow"),
    *(Rule(tool=tool, verdict="allow") for tool in ("edit", "read")),
    *(Rule(tool="bash", pattern=pattern, verdict="deny") for pattern in ("rm *", "curl *")),
)


@pytest.mark.spec("PERM-02", "PERM-03")
def test_no_attempt_gets_round_the_rules(table: Table, authority: Callable[..., Authority]) -> None:
    rows, made = table("attempts.tsv"), authority(*RULES)

    wrong = [
        (command, wanted, decision.verdict, decision.reason)
        for command, wanted, _ in rows
        if (decision := judge_call(made, "bash", command)).verdict != wanted
    ]

    assert len(rows) > 600
    assert wrong == []


@pytest.mark.spec("PERM-03")
def test_what_a_pattern_matches_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    workspace, secret = tmp_path / "w", tmp_path / "secret"
    (workspace / "sub").mkdir(parents=True)
    secret.write_text("x")
    place = Place(os.path.realpath(workspace))
    made = Authority(tiers=(Tier("agent", RULES),), fallback="ask", place=place)

    def resolved(op: Op, path: str) -> Target:
        return resolve(op, path, place.workspace)

    judge = partial(judge_call, made, "bash", resolve=resolved, expand=notable_matches)
    assert judge("cat sub/*").verdict == "allow"
    (workspace / "sub" / "a").symlink_to(secret)
    (workspace / "link").symlink_to(tmp_path)

    assert judge("cat sub/*").verdict == "ask"
    assert judge("cat */secret").verdict == "ask"
    assert judge("tee l*/secret < sub/b").verdict == "deny"


@pytest.mark.spec("PERM-03")
def test_a_file_whose_name_is_an_option_is_not_handed_to_a_program_by_a_pattern(tmp_path: Path) -> None:
    place = Place(os.path.realpath(tmp_path))
    made = Authority(tiers=(Tier("agent", RULES),), fallback="ask", place=place)
    judge = partial(judge_call, made, "bash", expand=notable_matches)
    commands = ("sort *", "sort ?o*", "ls | xargs sort", "git ls-files | xargs sort")
    assert {judge(command).verdict for command in commands} == {"allow"}

    (tmp_path / "-o.bashrc").touch()

    assert [judge(command).verdict for command in commands] == ["ask"] * 4
    assert judge("sort ./*").verdict == "allow"
    assert judge("find . | xargs sort").verdict == "allow"
