"""The product's main job without a key: a team of agents from a git repository, on the scripted model.

Everything runs in a temporary folder through the command line, as a user would
type it. `make demo` runs this file.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
SETTINGS = """\
local_repositories = true
default_model = "demo/team"

[providers.demo]
format = "scripted"
base_url = "{script}"
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="retinue-demo-") as name:
        folder = Path(name)
        demo = Demo(folder)
        demo.say("A team keeps its agents in git. Here is its repository, and our workspace.")
        demo.set_up()
        demo.run("retinue repos add {repository} --name main-agents --root")
        demo.run("retinue repos sync")
        demo.run("retinue agents list --source git:main-agents")
        demo.run("retinue agents resolve sales/assistant")
        demo.say("One agent is asked; it reads a file and starts three others. We pull the plug in the middle.")
        demo.interrupted('retinue run sales/assistant "qualify Acme"', when="ContractReview")
        demo.run("retinue threads list")
        demo.say("Nothing is lost: every step was on disk before the next one began. We let it go on.")
        demo.run("retinue threads resume {thread}")
        demo.run("retinue threads tree {thread}")
        demo.run("cat leads/acme.qualified.md")
        demo.say("That was the whole product on its embedded defaults. Next: README.md, docs/guide/.")


class Demo:
    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.workspace = folder / "workspace"
        self.home = folder / "home"
        self.thread = ""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environ = {**os.environ, "RETINUE_HOME": str(self.home), "PATH": path, "NO_COLOR": "1"}

    def set_up(self) -> None:
        shutil.copytree(EXAMPLES / "team", self.repository)
        shutil.copytree(EXAMPLES / "workspace", self.workspace)
        self.home.mkdir()
        (self.home / "retinue.toml").write_text(SETTINGS.format(script=EXAMPLES / "script.yaml"))
        author = ["-c", "user.name=demo", "-c", "user.email=demo@example.com"]
        for command in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-q", "-m", "Our agents"]):
            subprocess.run(["git", *command], cwd=self.repository, check=True)

    def say(self, text: str) -> None:
        print(f"\n# {text}", flush=True)

    def run(self, command: str) -> None:
        line = command.format(repository=self.repository, thread=self.thread)
        print(f"\n$ {line}", flush=True)
        subprocess.run(shlex.split(line), cwd=self.workspace, env=self.environ, check=True)

    def interrupted(self, command: str, *, when: str) -> None:
        """Run it, press Ctrl-C as soon as `when` shows, and remember the thread."""
        print(f"\n$ {command}", flush=True)
        process = subprocess.Popen(
            shlex.split(command), cwd=self.workspace, env=self.environ, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", flush=True)
            if when in line and process.poll() is None:
                process.send_signal(signal.SIGINT)
                when = "\0"
        process.wait()
        listed = subprocess.run(
            ["retinue", "threads", "list", "--json"],
            cwd=self.workspace,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )

        self.thread = json.loads(listed.stdout)[0]["id"]


if __name__ == "__main__":
    main()
