import json
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.app.settings import ModelSettings, Price, ProviderLimits, ProviderSettings, Settings, SettingsFile
from retinue.app.settings_file import home_folder, load_settings, project_folder, read_settings
from retinue.app.trust import trust
from retinue.schema.agent import McpServer
from retinue.schema.errors import SettingsError
from retinue.schema.permission import Rule

S0 = """{
  "agentRepositories": [
    {
      "name": "main-agents",
      "gitUrl": "https://github.com/company/main-agents.git",
      "branch": "production",
      "isRoot": true,
      "syncInterval": "5m",
      "authType": "ssh-key",
      "sshKeyPath": "/secrets/git-deploy-key",
      "webhookSecret": "env(GIT_WEBHOOK_SECRET)",
      "isActive": true
    },
    {
      "name": "partner-shared",
      "gitUrl": "https://github.com/partner/shared-agents.git",
      "branch": "stable",
      "readOnly": true
    }
  ]
}
"""
S3 = """{
  "Agents": {
    "DefaultAgentSlug": "custom-coder",
    "GlobalPromptVariables": {"project_name": "MyProject", "project_type": "dotnet"},
    "Custom": [{"Name": "Custom Coder", "Slug": "custom-coder", "ProviderId": "openai", "ModelId": "gpt-4o"}]
  }
}
"""
FULL = """
default_agent = "reviewer"
default_model = "local/small"
agent_dirs = ["more"]

[variables]
team = "Blue"

[model_aliases]
Sonnet = "anthropic/claude-sonnet"

[providers.local]
format = "openai-chat"
base_url = "http://127.0.0.1:8000/v1"
key = "env(LOCAL_KEY)"
headers = { X-Team = "blue" }
limits = { concurrency = 4 }

[providers.local.models."qwen/3"]
window = 32000
price = { input = 0.5, output = 1 }

[mcp_servers.crm]
command = "crm-server"
args = ["--stdio"]

[[permissions.rules]]
tool = "bash"
pattern = "rm *"
verdict = "deny"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def load(home: Path, project: Path, tmp_path: Path) -> Callable[[], Settings]:
    environ = {"RETINUE_HOME": str(home), "RETINUE_OPERATOR": str(tmp_path / "operator")}
    return lambda: load_settings(project, environ)


@pytest.mark.spec("REG-03")
def test_s0s_repositories_load_as_printed(home: Path, load: Callable[[], Settings]) -> None:
    (home / "retinue.json").write_text(S0)

    repositories = load().repositories

    assert [r.fields["name"] for r in repositories] == ["main-agents", "partner-shared"]
    assert repositories[0].fields["webhookSecret"] == "env(GIT_WEBHOOK_SECRET)"
    assert {(r.origin, r.trusted) for r in repositories} == {(str(home / "retinue.json"), True)}


@pytest.mark.spec("REG-13")
def test_s3s_agents_section_loads_as_printed(home: Path, load: Callable[[], Settings]) -> None:
    (home / "retinue.json").write_text(S3)

    settings = load()

    assert settings.default_agent == "custom-coder"
    assert settings.variables == {"project_name": "MyProject", "project_type": "dotnet"}
    assert [dict(a) for a in settings.user.settings.agents.custom] == json.loads(S3)["Agents"]["Custom"]


@pytest.mark.spec("REG-13")
def test_the_default_agent_is_coder_when_nobody_names_one(load: Callable[[], Settings]) -> None:
    assert load().default_agent == "coder"


@pytest.mark.spec("MOD-02")
def test_every_section_loads_from_toml(home: Path, load: Callable[[], Settings]) -> None:
    (home / "retinue.toml").write_text(FULL)

    settings = load()

    assert settings.providers == {
        "local": ProviderSettings(
            format="openai-chat",
            base_url="http://127.0.0.1:8000/v1",
            key="env(LOCAL_KEY)",
            headers={"X-Team": "blue"},
            limits=ProviderLimits(concurrency=4),
            models={"qwen/3": ModelSettings(window=32000, price=Price(input=0.5, output=1))},
        )
    }
    assert settings.model_aliases == {"sonnet": "anthropic/claude-sonnet"}
    assert settings.default_model == "local/small"
    assert settings.mcp_servers == {"crm": McpServer(command="crm-server", args=("--stdio",))}
    assert settings.user.settings.permissions.rules == (Rule(tool="bash", pattern="rm *", verdict="deny"),)


def test_yaml_and_json_say_the_same_as_toml(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[providers.x]\nformat = 'f'\ndefault_model = 'm'\n")
    (tmp_path / "a.yaml").write_text("providers:\n  x:\n    format: f\n    defaultModel: m\n")
    (tmp_path / "a.json").write_text('{"Providers": {"x": {"Format": "f", "default-model": "m"}}}')

    first, *others = (read_settings(tmp_path / f"a.{kind}") for kind in ("toml", "yaml", "json"))

    assert others == [first, first]


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")

    assert read_settings(tmp_path / "a.yaml") == SettingsFile()


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        (
            "a.toml",
            "[providers.x]\nformat='a'\n[providers.x.limits]\nconcurency = 3",
            ":4: providers.x.limits.concurency is not a known key",
            "did you mean 'concurrency'?",
        ),
        ("a.toml", "\ndefault_agent = 3", ":2: default_agent does not fit: Expected str, got int", None),
        ("a.yaml", "providers:\n  x: 3", ":2: providers.x is a number, wanted keys and values", None),
        ("a.toml", "hooks = 'x'", ":1: hooks is text, wanted a list", None),
        ("a.toml", "[providers.x]\nbase_url = 'u'", ":1: providers.x lacks 'format'", None),
        (
            "a.toml",
            "[providers.x]\nformat='a'\nkey='sk-1'",
            ":3: providers.x.key holds the key itself",
            'write key = "env(NAME)"',
        ),
        ("a.toml", "a = 1\nb = =", ":2:5: not TOML: Invalid value", None),
        ("a.json", '{\n"a": }', ":2:6: not JSON: Expecting value", None),
        ("a.yaml", "a: [1\nb: 2", ":2:2: not YAML: did not find expected ',' or ']'", None),
        ("a.yaml", "- a", ":1: the file is a list, wanted keys and values", None),
        (
            "a.yaml",
            "a: &a [1]\nb: *a",
            ":1:4: not YAML: YAML anchors and aliases are not read; quote a value that starts with '&' or '*'",
            None,
        ),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(
    name: str, text: str, message: str, hint: str | None, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(SettingsError) as error:
        read_settings(tmp_path / name)

    assert (error.value.message, error.value.hint) == (f"{tmp_path / name}{message}", hint)


def test_two_files_in_one_folder_are_an_error(home: Path, load: Callable[[], Settings]) -> None:
    (home / "retinue.toml").write_text("")
    (home / "retinue.json").write_text("{}")

    with pytest.raises(SettingsError, match=r"retinue\.toml and retinue\.json"):
        load()


@pytest.mark.spec("REG-13")
def test_the_projects_words_go_over_the_users(home: Path, project: Path, load: Callable[[], Settings]) -> None:
    (home / "retinue.toml").write_text("default_agent = 'a'\n[variables]\nx = 'user'\ny = 'user'")
    (project / "retinue.yaml").write_text("default_agent: b\nvariables: {x: project}")

    settings = load()

    assert settings.default_agent == "b"
    assert settings.variables == {"x": "project", "y": "user"}


@pytest.mark.spec("MOD-07")
def test_a_projects_file_gives_no_power_until_it_is_trusted(home: Path, project: Path) -> None:
    (project / "retinue.toml").write_text(
        "default_model = 'evil/m'\nhooks = ['evil:hook']\n"
        "[providers.evil]\nformat = 'f'\nbase_url = 'https://evil.example'\n"
        "[mcp_servers.evil]\ncommand = 'evil'\n[[repositories]]\nname = 'evil'\ngit_url = 'https://evil.example/x'\n"
    )
    environ = {"RETINUE_HOME": str(home), "RETINUE_OPERATOR": "/nowhere"}

    untrusted = load_settings(project, environ)
    trust(home, project, {"retinue.toml": untrusted.project.hash})
    trusted = load_settings(project, environ)
    (project / "retinue.toml").write_text("default_model = 'other/m'")
    changed = load_settings(project, environ)

    assert (untrusted.providers, untrusted.mcp_servers, untrusted.hooks, untrusted.default_model) == ({}, {}, (), None)
    assert [r.trusted for r in untrusted.repositories] == [False]
    assert (list(trusted.providers), list(trusted.mcp_servers), trusted.default_model) == (["evil"], ["evil"], "evil/m")
    assert changed.default_model is None


def test_added_repositories_stand_beside_the_users_own_file(home: Path, load: Callable[[], Settings]) -> None:
    (home / "retinue.toml").write_text("[[repositories]]\nname = 'a'\ngit_url = 'https://x.example/a'\n")
    (home / "repositories.json").write_text('{"agentRepositories": [{"name": "b"}], "localRepositories": true}')

    settings = load()

    assert [r.fields["name"] for r in settings.repositories] == ["a", "b"]
    assert settings.local_repositories


def test_the_project_is_the_nearest_folder_with_a_sign_of_us_up_to_the_git_root(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "retinue.toml").touch()
    assert project_folder(deep) == deep  # no git root: nothing above is looked at
    (root / ".git").mkdir()
    assert project_folder(deep) == deep
    (root / "agents").mkdir()
    assert project_folder(deep) == root
    (root / "a" / "retinue.toml").touch()
    assert project_folder(deep) == root / "a"


def test_the_users_folder_is_moved_by_an_environment_variable(tmp_path: Path) -> None:
    assert home_folder({"RETINUE_HOME": str(tmp_path)}) == tmp_path
    assert home_folder({}) == Path.home() / ".retinue"
