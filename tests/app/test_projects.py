"""Threads of two projects on one data folder: real processes, one of which drives the threads of both."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retinue.app.settings import SandboxSettings, Settings, SettingsFile, Tier
from retinue.models.script import CallTool, Say
from retinue.schema.errors import SettingsError
from retinue.storage.sqlite import open_database
from retinue.testing.harness import scripted_app
from support.agents import agent
from support.scripted import PROGRAM, Setup, call, complete

SHELL = ("tools: bash", "permissions:", "  default: allow")
DENY = "[[permissions.rules]]\ntool = 'bash'\npattern = 'touch *'\nverdict = 'deny'\nreason = 'not in {}'\n"


class Two:
    """Projects `a` and `b`, each with a settings file of its own, and one user."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self._folder = folder / "home", folder
        self.processes: list[subprocess.Popen[str]] = []
        monkeypatch.setenv("RETINUE_HOME", str(self.home))
        monkeypatch.setenv("RETINUE_OPERATOR", str(folder / "operator"))
        monkeypatch.setenv("HOME", str(folder / "person"))
        for name in ("a", "b"):
            (folder / name / ".git").mkdir(parents=True)

    def of(self, name: str) -> Setup:
        return Setup(self.home, self._folder / name)

    def settings(self, name: str, text: str) -> None:
        (self._folder / name / "retinue.toml").write_text(text)

    def start(self, name: str, *args: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*PROGRAM, *args], cwd=self._folder / name, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self.processes.append(process)
        return process

    def serve(self, name: str) -> None:
        """A process of the project that drives until the test is over."""
        process = self.start(name, "serve", "--port", "0")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving on")

    def kill(self) -> None:
        while self.processes:
            process = self.processes.pop()
            process.kill()
            process.communicate()

    def run(self, name: str, agent: str = "shell") -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.of(name).retinue("run", agent, "go", "--no-input", "--json").stdout)
        return said


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    made = Two(tmp_path, monkeypatch)
    yield made
    made.kill()


def statuses(said: dict[str, Any]) -> list[str]:
    return [made["status"] for made in said["calls"]]


@pytest.mark.spec("PERM-01")
def test_whoever_drives_each_thread_is_judged_by_the_rules_of_its_own_project(two: Two) -> None:
    two.of("a").agent("shell", *SHELL, always=None, says=[call("bash", command="touch made"), "Done."])
    two.settings("b", DENY.format("b"))
    two.serve("a")

    refused, allowed = two.run("b"), two.run("a")

    assert (statuses(refused), statuses(allowed)) == (["denied"], ["ok"])
    assert not (two.of("b").project / "made").exists()
    two.settings("b", "")
    two.settings("a", DENY.format("a"))
    refused, allowed = two.run("a"), two.run("b")
    assert (statuses(refused), statuses(allowed)) == (["denied"], ["ok"])


@pytest.mark.spec("PERM-01")
def test_agents_that_a_thread_calls_are_those_of_its_own_project_and_bound_by_its_rules(two: Two) -> None:
    asks = call("call_agent", agent_name="shell", input="go")
    two.of("a").agent("lead", "allowed_agents: ['shell']", says=[asks, "Done."])
    two.of("a").agent("shell", *SHELL, says=[call("bash", command="touch made"), complete()])
    two.settings("b", DENY.format("b"))
    two.serve("a")

    said = two.run("b", "lead")

    assert statuses(said) == ["ok"]
    assert not (two.of("b").project / "made").exists()


@pytest.mark.spec("PERM-01")
async def test_a_thread_whose_process_was_killed_keeps_its_rules_where_it_is_recovered(two: Two) -> None:
    slow = {**call("bash", command="touch made"), "latency": 1.0}
    two.of("a").agent("shell", *SHELL, says=[slow, "Done."])
    two.settings("b", DENY.format("b"))
    two.start("b", "run", "shell", "go", "--no-input")
    thread = await _asked(two.home / "retinue.db")
    two.kill()

    two.serve("a")
    said = await asyncio.to_thread(two.of("a").wait, thread)

    assert statuses(said) == ["denied"]
    assert not (two.of("b").project / "made").exists()


async def _asked(path: Path) -> str:
    """The first thread whose model was asked."""
    async with asyncio.timeout(30):
        database = await open_database(path)
        try:
            while True:
                for row in await database.store.rows(None):
                    if any(b'"model.asked"' in event.data for event in await database.store.events(row.id)):
                        return row.id
                await database.store.work(0.05)
        finally:
            await database.close()


@pytest.mark.spec("PERM-07")
async def test_commands_have_the_limits_of_the_settings(tmp_path: Path) -> None:
    file = SettingsFile(sandbox=SandboxSettings(memory_mb=512))
    settings = Settings(home=tmp_path / "home", root=tmp_path, user=Tier(name="user", settings=file))
    script = [Say(calls=(CallTool("bash", {"command": "ulimit -d"}),)), "{{last_outcome}}"]
    async with scripted_app(tmp_path, script, agents=[agent("shell", "bash")], settings=settings) as app:
        assert "524288" in str((await app.run("shell", "go")).result)


@pytest.mark.spec("OBS-02")
async def test_hooks_that_the_settings_name_are_there_for_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shouting.py").write_text(
        "from retinue.runtime.hooks import Hook\n"
        "loud = Hook(id='loud', kind='after_system_message', run=lambda value, state: None)\n"
    )
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])

    def naming(*hooks: str) -> Settings:
        tier = Tier(name="user", settings=SettingsFile(hooks=hooks))
        return Settings(home=tmp_path / "home", root=tmp_path, user=tier)

    async with scripted_app(tmp_path, "Done.", settings=naming("shouting:loud")) as app:
        assert list(app.engine.runtime.hooks.known) == ["loud"]
    for wrong in ("shouting:quiet", "nothing:x", "shouting", "shouting:Hook"):
        with pytest.raises(SettingsError, match=wrong):
            async with scripted_app(tmp_path, "Done.", settings=naming(wrong)):
                pass
