"""Rules that would have answered what people approved: as few as possible, as narrow as they can be."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from retinue.policy.network import Origin, parse
from retinue.policy.patterns import matches
from retinue.policy.rules import category
from retinue.policy.shell.judge import judge_command
from retinue.policy.shell.words import names
from retinue.schema.permission import Decision, Rule

_TWO_WORDS = names(
    "git npm pnpm yarn bun cargo go pip uv poetry dotnet docker kubectl make just gh terraform helm systemctl brew apt "
    "composer bundle rails mix gradle ./gradlew mvn nx turbo deno rustup conda"
)
_THREE_WORDS = frozenset(
    ("npm run", "pnpm run", "yarn run", "bun run", "uv run", "poetry run", "docker compose", "gh pr", "git remote")
)
_PYTHON = frozenset(("python", "python3", "pypy3"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A call that a person approved, with the decision that asked."""

    tool: str
    resource: str
    decision: Decision | None = None


def suggest(approved: Iterable[Approved]) -> tuple[Rule, ...]:
    """Return allow rules that would have answered every call a rule can answer."""
    found: dict[tuple[str, str], None] = {}
    paths: dict[str, list[str]] = {}
    for call in approved:
        if call.tool == "bash":
            found.update(dict.fromkeys(("bash", pattern) for pattern in _commands(call)))
        elif category(call.tool) in ("read", "edit"):
            paths.setdefault(category(call.tool), []).append(call.resource)
        else:
            found[(category(call.tool), _other(call))] = None
    for tool, resources in paths.items():
        found.update(dict.fromkeys((tool, pattern) for pattern in _folders(resources)))
    rules = [key for key in found if not any(_covers(other, key) for other in found if other != key)]
    return tuple(Rule(tool=tool, pattern=pattern, verdict="allow") for tool, pattern in rules)


def remember(command: str) -> str:
    """Return the pattern that stands for commands like this one: `git push *`, `npm run build *`.

    A redirection stands for itself: no rule for commands answers it.
    """
    words = command.split()
    if not re.match(r"[\w./]", command):
        return command
    count = 1
    if words[0] in _TWO_WORDS or (words[0] in _PYTHON and words[1:2] == ["-m"]):
        count = 3 if " ".join(words[:2]) in _THREE_WORDS or words[0] in _PYTHON else 2
    head = words[:count]
    if any(word.startswith("-") for word in head[1:] if word != "-m"):
        return command
    return " ".join([*head, "*"])


def _commands(call: Approved) -> list[str]:
    asked = [c.command for c in call.decision.commands if c.verdict == "ask"] if call.decision else [call.resource]
    return [pattern for command in asked if (pattern := _narrowest(command))]


def _narrowest(command: str) -> str:
    """A prefix when it is enough; the command itself when what is asked is a flag; nothing when no rule can answer."""
    return next((pattern for pattern in (remember(command), command) if _answers(pattern, command)), "")


def _answers(pattern: str, command: str) -> bool:
    rule = Rule(tool="bash", pattern=pattern, verdict="allow")

    def judge(text: str) -> Decision:
        if matches(pattern, text):
            return Decision(verdict="allow", reason="", rule=rule)
        return Decision(verdict="ask", reason="")

    harmless = Decision(verdict="allow", reason="")
    return judge_command(command, judge=judge, files=lambda _: harmless, cwd="/").verdict == "allow"


def _folders(resources: Sequence[str]) -> list[str]:
    """Several files of one folder are answered by the folder."""
    by_folder: dict[str, set[str]] = {}
    for path in resources:
        by_folder.setdefault(path.rpartition("/")[0], set()).add(path)
    return [
        pattern
        for folder, paths in by_folder.items()
        for pattern in ([f"{folder}/*"] if folder and len(paths) > 1 else sorted(paths))
    ]


def _other(call: Approved) -> str:
    origin = parse(call.resource) if call.tool == "webfetch" else ""
    if isinstance(origin, Origin):
        return f"{call.resource.partition('://')[0]}://{call.resource.split('/')[2]}/*"
    return call.resource or "*"


def _covers(wide: tuple[str, str], narrow: tuple[str, str]) -> bool:
    return wide[0] == narrow[0] and matches(wide[1], narrow[1])
