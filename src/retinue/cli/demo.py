"""`retinue demo`: the main job without a key, in a temporary folder, through the commands that a user would type."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TextIO

import retinue
from retinue.cli.command import Told, command, wants_json
from retinue.schema.errors import NotFound

_PROGRAM = [sys.executable, "-c", "from retinue.cli.main import main; main()"]
_SETTINGS = """\
local_repositories = true
default_model = "demo/team"

[providers.demo]
format = "scripted"
base_url = "{script}"
"""


@command()
def demo() -> Told:
    """Show a team of agents from a git repository at work, interrupted and resumed. Needs no key and no network."""
    with tempfile.TemporaryDirectory(prefix="retinue-demo-") as name:
        show = _Demo(_examples(), Path(name), sys.stderr if wants_json() else sys.stdout)
        show.say("A team keeps its agents in git. Here is its repository, and our workspace.")
        show.set_up()
        show.run("retinue repos add {repository} --name main-agents --root")
        show.run("retinue repos sync")
        show.run("retinue agents list --source git:main-agents")
        show.run("retinue agents resolve sales/assistant")
        show.say("One agent is asked; it reads a file and starts three others. We pull the plug in the middle.")
        thread = show.interrupted('retinue run sales/assistant "qualify Acme"', when="ContractReview")
        show.run("retinue threads list")
        show.say("Nothing is lost: every step was on disk before the next one began. We let it go on.")
        show.run(f"retinue threads resume {thread}")
        show.run(f"retinue threads tree {thread}")
        show.run("cat leads/acme.qualified.md")
        show.say("That was the whole product on its embedded defaults. Next: README.md, docs/guide/.")
        tree: object = json.loads(show.output("threads", "tree", thread, "--json"))
    return Told(tree)


def _examples() -> Path:
    """Beside the modules of an installed package; in a clone, at its root."""
    package = Path(retinue.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "team").is_dir():
            return folder
    raise NotFound("the examples of the demo are not installed", hint="run it in a clone: make demo")


class _Demo:
    def __init__(self, examples: Path, folder: Path, out: TextIO) -> None:
        self._examples, self._out = examples, out
        self._repository, self._workspace, self._home = (folder / n for n in ("repository", "workspace", "home"))
        self._environ = {**os.environ, "RETINUE_HOME": str(self._home), "NO_COLOR": "1"}

    def set_up(self) -> None:
        shutil.copytree(self._examples / "team", self._repository)
        shutil.copytree(self._examples / "workspace", self._workspace)
        self._home.mkdir()
        (self._home / "retinue.toml").write_text(_SETTINGS.format(script=self._examples / "script.yaml"))
        author = ["-c", "user.name=demo", "-c", "user.email=demo@example.com"]
        for words in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-q", "-m", "Our agents"]):
            subprocess.run(["git", *words], cwd=self._repository, check=True)

    def say(self, text: str) -> None:
        print(f"\n# {text}", file=self._out, flush=True)

    def run(self, line: str) -> None:
        words = self._words(line)
        subprocess.run(words, cwd=self._workspace, env=self._environ, stdout=self._out, check=True)

    def interrupted(self, line: str, *, when: str) -> str:
        """Run it, press Ctrl-C as soon as `when` shows, and return its thread."""
        process = subprocess.Popen(
            self._words(line),
            cwd=self._workspace,
            env=self._environ,
            stdout=self._out,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        for shown in process.stderr:
            print(shown, end="", file=self._out, flush=True)
            if when and when in shown:
                process.send_signal(signal.SIGINT)
                when = ""
        process.wait()
        thread: str = json.loads(self.output("threads", "list", "--json"))[0]["id"]
        return thread

    def output(self, *words: str) -> str:
        done = subprocess.run(
            [*_PROGRAM, *words], cwd=self._workspace, env=self._environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    def _words(self, line: str) -> list[str]:
        line = line.format(repository=self._repository)
        print(f"\n$ {line}", file=self._out, flush=True)
        name, *rest = shlex.split(line)
        return [*_PROGRAM, *rest] if name == "retinue" else [name, *rest]
