from pathlib import Path

import pytest

from retinue.app.settings import (
    NetworkSection,
    SandboxSettings,
    Settings,
    SettingsFile,
    Tier,
    secret_name,
)
from retinue.net.settings import NetworkSettings
from retinue.schema.agent import SandboxMode


def _settings(**files: SettingsFile) -> Settings:
    def tier(name: str) -> SettingsFile:
        return files.get(name, SettingsFile())

    return Settings(
        home=Path("/home"),
        root=Path("/root"),
        operator=Tier(name="operator", settings=tier("operator")),
        user=Tier(name="user", settings=tier("user")),
        project=Tier(name="project", settings=tier("project"), trusted=False),
    )


@pytest.mark.spec("PERM-07")
@pytest.mark.parametrize(
    ("operator", "user", "project", "mode"),
    [
        (None, None, None, "auto"),
        (None, "off", None, "off"),
        ("require", "off", None, "require"),
        (None, "off", "require", "require"),
        (None, "require", "off", "require"),
        ("auto", "off", "off", "auto"),
    ],
)
def test_the_sandbox_is_only_tightened_above_the_user_and_by_the_project(
    operator: SandboxMode | None, user: SandboxMode | None, project: SandboxMode | None, mode: SandboxMode
) -> None:
    def file(mode: SandboxMode | None) -> SettingsFile:
        return SettingsFile(sandbox=SandboxSettings(mode=mode) if mode else None)

    assert _settings(operator=file(operator), user=file(user), project=file(project)).sandbox.mode == mode


def test_an_untrusted_project_closes_hosts_and_opens_none() -> None:
    settings = _settings(
        user=SettingsFile(network=NetworkSection(allow=("10.0.0.1",))),
        project=SettingsFile(network=NetworkSection(allow=("evil.example",), deny=("bad.example",))),
    )

    assert settings.network == NetworkSettings(hosts=frozenset({"10.0.0.1"}), denied=frozenset({"bad.example"}))


def test_a_secret_is_a_name() -> None:
    assert secret_name("env(OPENAI_API_KEY)") == "OPENAI_API_KEY"
    assert [secret_name(v) for v in ("sk-1", "env()", "env(A B)", " env(A)")] == [None, None, None, None]
