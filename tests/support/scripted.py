"""A user's folder with a scripted provider, agents and a script, for real processes of the command line."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from support.terminal import Terminal

PROGRAM = (sys.executable, "-c", "from retinue.cli.main import main; main()")
Ran = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Setup:
    """Where commands run. The environment names the folders; see `home` and `project` of the conftest."""

    home: Path
    project: Path

    def agent(self, name: str, *keys: str, says: Sequence[object] = (), always: object = None) -> None:
        """Add an agent and what its model says, in order or always; lines of frontmatter are `keys`."""
        folder = self.home / "agents"
        folder.mkdir(parents=True, exist_ok=True)
        head = "\n".join(("---", f"description: The agent {name}.", *keys, "---"))
        (folder / f"{name}.md").write_text(f"{head}\nYou are {name}.\n")
        others = [rule for rule in self._rules() if rule["when"] != {"agent": name}]
        rules = [*others, {"when": {"agent": name}, "answers": says, "answer": always}]
        (self.home / "script.json").write_bytes(msgspec.json.encode({"rules": rules}))
        settings = {
            "default_model": "demo/script",
            "providers": {"demo": {"format": "scripted", "base_url": str(self.home / "script.json")}},
        }
        (self.home / "retinue.json").write_bytes(msgspec.json.encode(settings))

    def _rules(self) -> list[Mapping[str, object]]:
        file = self.home / "script.json"
        if not file.exists():
            return [{"when": {"agent": "title"}, "answer": "A title"}]
        return msgspec.json.decode(file.read_bytes(), type=dict[str, list[Mapping[str, object]]])["rules"]

    def retinue(self, *args: str, stdin: str | None = None, code: int | None = None) -> Ran:
        """Run a command to its end; with `code`, it must leave with it."""
        ran = subprocess.run(
            [*PROGRAM, *args],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            cwd=self.project,
            timeout=120,
            check=False,
        )
        assert code is None or ran.returncode == code, f"left with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}"
        return ran

    def terminal(self, *args: str) -> Terminal:
        return Terminal([*PROGRAM, *args], cwd=self.project)

    def threads(self, *args: str) -> list[dict[str, object]]:
        ran = self.retinue("threads", "list", "--json", *args, code=0)
        return msgspec.json.decode(ran.stdout, type=list[dict[str, object]])

    def wait(self, thread: str) -> dict[str, object]:
        ran = self.retinue("threads", "wait", thread, "--json", "--timeout", "60")
        return msgspec.json.decode(ran.stdout, type=dict[str, object])


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"tool": tool, "arguments": arguments}]}


def complete(status: str = "SUCCESS", result: object = "Done.") -> dict[str, object]:
    return call("complete_agent_execution", status=status, result=result)


def kill(process: "subprocess.Popen[bytes]") -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
