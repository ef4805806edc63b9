"""The rulesets that ship, as data, and the tiers that an agent's own definition makes."""

from dataclasses import dataclass
from functools import lru_cache

from retinue.policy.rules import Tier, allowed_commands
from retinue.schema.agent import AgentDefinition
from retinue.schema.permission import Permissions, Rule, RulesetName, Verdict


@dataclass(frozen=True, slots=True)
class Ruleset:
    rules: tuple[Rule, ...]
    default: Verdict


def _rules(verdict: Verdict, tool: str, *patterns: str, reason: str = "") -> tuple[Rule, ...]:
    return tuple(
        Rule(tool=name, pattern=pattern, verdict=verdict, reason=reason)
        for name in tool.split()
        for pattern in patterns or ("*",)
    )


_SECRET_FILES = ("*.env*", "*secret*", "*password*", "*credential*")
_LOOKING = (
    "ls cat pwd echo head tail wc grep rg sort uniq cut tr diff which tree find sed awk jq printf date uname whoami id "
    "hostname nproc df du stat file basename dirname realpath readlink seq sleep xxd od md5sum sha1sum sha256sum cksum "
    "comm cmp paste column nl tac rev fold ps lsof env printenv read xargs zcat base64"
)
_BUILDING = (
    "git npm pnpm yarn node bun dotnet cargo rustc rustfmt python python3 pip pip3 uv poetry pytest tox nox ruff mypy "
    "pyright black flake8 isort pre-commit make cmake ctest ninja go gofmt tsc eslint prettier jest vitest mvn gradle "
    "./gradlew ./mvnw java javac ruby rake rspec bundle php composer .venv/bin/* venv/bin/* node_modules/.bin/* "
    "./.venv/bin/* ./venv/bin/* ./node_modules/.bin/*"
)
"""What runs the project's own code, like its tests and its build."""
_FOLDERS = ("src", "tests", "docs")
_MAKING = ("mkdir", "mkdir -p", "touch")
_ROOT_WIPES = tuple(
    f"rm {flags} {path}" for flags in ("-rf", "-fr", "-r", "-r -f", "-f -r", "-R", "-Rf") for path in ("/", "/*", "~")
)
_READERS = "read glob grep list"
_NO_SECRETS = _rules("deny", "read", *_SECRET_FILES, reason="files that hold secrets are not read here")
_HANDS_OFF = _rules("deny", "edit bash", reason="this ruleset changes nothing")

RULESETS: dict[RulesetName, Ruleset] = {
    "primary": Ruleset(
        rules=(
            *_rules("allow", f"{_READERS} task websearch question todo diagnostics"),
            *_rules("allow", "edit", *(f"{folder}/*" for folder in _FOLDERS)),
            *_rules("allow", "bash", *(f"{name} {folder}/*" for name in _MAKING for folder in _FOLDERS)),
            *_rules("allow", "bash", *(f"{name} *" for name in f"{_LOOKING} {_BUILDING}".split())),
            *_rules("allow", "bash", "npx --no-install *", "npx --no *"),
            *_rules(
                "allow", "bash", *(f"{name} {v}/bin/activate" for name in ("source", ".") for v in (".venv", "venv"))
            ),
            *_rules("ask", "webfetch", reason="fetches from the network"),
            *_rules("ask", "bash", "curl *", "wget *", reason="downloads"),
            *_rules("ask", "edit", *_SECRET_FILES, reason="the file's name suggests secrets"),
            *_rules("ask", "edit", "~/*", reason="changes the home folder"),
            *_rules("ask", "bash", "rm *", "chmod *", "sudo *", reason="hard to undo"),
            *_rules("deny", "edit", "/etc/*", "/usr/*", reason="belongs to the system"),
            *_rules("deny", "bash", *_ROOT_WIPES, reason="removes everything"),
        ),
        default="ask",
    ),
    "explorer": Ruleset(
        rules=(
            *_rules("allow", f"{_READERS} diagnostics"),
            *_NO_SECRETS,
            *_HANDS_OFF,
            *_rules("deny", "task", reason="this ruleset does not delegate"),
        ),
        default="deny",
    ),
    "planner": Ruleset(
        rules=(*_rules("allow", f"{_READERS} diagnostics todo question task"), *_NO_SECRETS, *_HANDS_OFF),
        default="deny",
    ),
    "researcher": Ruleset(
        rules=(
            *_rules("allow", "webfetch websearch read glob grep"),
            *_NO_SECRETS,
            *_HANDS_OFF,
            *_rules("deny", "task", reason="this ruleset does not delegate"),
        ),
        default="deny",
    ),
}


def default_verdict(permissions: Permissions) -> Verdict:
    return permissions.default or RULESETS[permissions.ruleset].default


def agent_tiers(agent: AgentDefinition) -> tuple[Tier, ...]:
    """Return what the definition itself says: its ruleset, its rules, and its allowed commands.

    A listed command allows what the ruleset would ask, never what it denies;
    every other command asks, whatever the ruleset allows.
    """
    return _tiers(agent.permissions, agent.allowed_commands)


@lru_cache(maxsize=512)
def _tiers(permissions: Permissions, commands: tuple[str, ...] | None) -> tuple[Tier, ...]:
    """Kept, because a tier holds its patterns compiled and threads of one agent come by the thousand."""
    shipped = RULESETS[permissions.ruleset].rules
    listed = allowed_commands(commands)
    if not listed:
        return (Tier("agent", (*shipped, *permissions.rules)),)
    denies = tuple(rule for rule in shipped if rule.tool == "bash" and rule.verdict == "deny")
    return Tier("agent", (*shipped, *listed[1:], *denies, *permissions.rules)), Tier("agent", listed)
