"""glob, grep and list, with rg and without: both must show the same."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from retinue.ports.tool import ToolContext
from retinue.sandbox.descriptors import locate
from retinue.tools.glob import Glob
from retinue.tools.grep import Grep
from retinue.tools.list import List
from retinue.tools.walk import files_below, ripgrep
from retinue.tools.wildcard import wildcard

FILES = {
    "a.py": "import os\nprint('needle')\n",
    "src/b.py": "needle = 1\nother\nNEEDLE\n",
    "src/deep/c.ts": "const x = 'needle'\n",
    "src/deep/d.log": "needle\n",
    "build/out.txt": "needle\n",
    "keep/build/x.txt": "needle\n",
    ".hidden/e.py": "needle\n",
    ".git/config": "needle\n",
    "notes/todo.md": "nothing\n",
    "docs/a b.md": "needle here\n",
    "docs/important.log": "needle\n",
    ".gitignore": "*.log\n/build/\n!important.log\n# a comment\n\\#odd\ndocs/gen*/\n",
    "docs/generated/x.md": "needle\n",
    "docs/.gitignore": "a?b.md\n",
    "docs/other/a b.md": "needle\n",
}
SEEN = {
    *("a.py", "src/b.py", "src/deep/c.ts", "keep/build/x.txt", ".hidden/e.py", "notes/todo.md"),
    *("docs/important.log", ".gitignore", "docs/.gitignore"),
}


@pytest.fixture
def tree(workspace: Path) -> Path:
    for number, (name, text) in enumerate(FILES.items()):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (number, number))
    (workspace / "binary").write_bytes(b"needle\0needle")
    os.utime(workspace / "binary", (0, 0))
    (workspace / "link.py").symlink_to("a.py")
    return workspace


def program() -> str:
    found = ripgrep()
    if found is None:
        assert os.environ.get("CI") != "true", "rg must be installed where CI=true"
        pytest.skip("rg is not installed")
    return found


@pytest.mark.spec("TOOL-01")
def test_the_walk_leaves_out_what_git_leaves_out_with_rg_and_without(tree: Path) -> None:
    root = locate(str(tree), str(tree))
    by_rg, by_python = files_below(root, program=program()), files_below(root, program=None)
    os.close(root.fd)

    assert set(by_python) == SEEN | {"binary"}
    assert set(by_rg) == set(by_python)


def test_git_itself_agrees(tree: Path) -> None:
    if shutil.which("git") is None:
        assert os.environ.get("CI") != "true", "git must be installed where CI=true"
        pytest.skip("git is not installed")
    shutil.rmtree(tree / ".git")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True, env=environment)
    command = ["git", "ls-files", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=tree, check=True, capture_output=True, env=environment).stdout

    assert set(listed.decode().strip("\0").split("\0")) == SEEN | {"binary", "link.py"}


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("**/test_*", ["test_a", "x/test_b"], ["x/atest_"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.t", "a.ts,tsx"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "srcx/a"]),
        ("[!a]?.md", ["bc.md"], ["ac.md", "b/.md"]),
        ("a{b", ["a{b"], ["ab"]),
        ("{a,b}{c,{d,e}}", ["ac", "bd", "be"], ["a", "abc"]),
        ("[", ["["], ["x"]),
        ("./x/*", ["x/a"], ["y/x/a"]),
    ],
)
def test_wildcards_match_as_written(pattern: str, matches: list[str], others: list[str]) -> None:
    test = wildcard(pattern).fullmatch

    assert [name for name in matches if not test(name)] == []
    assert [name for name in others if test(name)] == []


@pytest.mark.spec("TOOL-01")
@pytest.mark.parametrize("use_program", [True, False])
async def test_glob_finds_names_newest_first(use_program: bool, tree: Path, context: ToolContext) -> None:
    glob = Glob(use_program=use_program)

    assert (await glob.run({"pattern": "*.py"}, context)).text.splitlines() == [".hidden/e.py", "src/b.py", "a.py"]
    assert (await glob.run({"pattern": "*.ts", "path": "src"}, context)).text == "src/deep/c.ts"
    assert (await glob.run({"pattern": "*.py", "limit": 1}, context)).text.splitlines() == [
        ".hidden/e.py",
        "[The first 1; there are more. Narrow the pattern.]",
    ]
    assert (await glob.run({"pattern": "*.none"}, context)).text == "No file matches *.none."
    assert (await glob.run({"pattern": "*", "path": "gone"}, context)).status == "error"
    assert glob.resource({"pattern": "*.py"}) == "*.py"


@pytest.mark.spec("TOOL-01")
@pytest.mark.parametrize("use_program", [True, False])
async def test_grep_shows_lines_files_or_counts(use_program: bool, tree: Path, context: ToolContext) -> None:
    async def grep(**arguments: object) -> list[str]:
        return (await Grep(use_program=use_program).run(arguments, context)).text.splitlines()

    assert await grep(pattern="needle", include="*.py") == [
        *(".hidden/e.py:1:needle", "src/b.py:1:needle = 1", "a.py:2:print('needle')"),
    ]
    assert await grep(pattern="needle", path="src", ignore_case=True, output="count") == [
        *("src/deep/c.ts:1", "src/b.py:2"),
    ]
    assert await grep(pattern="needle", output="files", include="src/**/*.ts") == ["src/deep/c.ts"]
    assert await grep(pattern="other", context=1) == [
        *("src/b.py:1-needle = 1", "src/b.py:2:other", "src/b.py:3-NEEDLE"),
    ]
    assert await grep(pattern="import", path="a.py") == ["a.py:1:import os"]
    assert await grep(pattern="needle", limit=1) == [
        *("docs/important.log:1:needle", "[The first 1; there are more. Narrow the pattern, the path or include.]"),
    ]
    assert await grep(pattern="no such thing") == ["No match for no such thing."]
    assert (await grep(pattern="(unclosed"))[0].startswith("The pattern can't be used")
    assert await grep(pattern="-e needle") == ["No match for -e needle."]


async def test_a_long_line_is_cut(workspace: Path, context: ToolContext) -> None:
    (workspace / "a").write_text(f"needle {'x' * 5000}\n")

    assert len((await Grep().run({"pattern": "needle"}, context)).text) < 600


@pytest.mark.spec("TOOL-01")
async def test_list_draws_a_tree(tree: Path, context: ToolContext) -> None:
    assert (await List().run({"depth": 2}, context)).text.splitlines() == [
        f"{tree}/",
        *(".gitignore", ".hidden/", "  e.py", "a.py", "binary", "docs/", "  .gitignore", "  important.log", "  other/"),
        *("keep/", "  build/", "link.py -> a.py", "notes/", "  todo.md", "src/", "  b.py", "  deep/"),
    ]
    assert (await List().run({"limit": 2, "depth": 1}, context)).text.splitlines()[
        -1
    ] == "[The first 2; there are more.]"
    assert (await List().run({"path": "a.py"}, context)).text == "a.py is a file; use `read`."


@pytest.mark.parametrize("use_program", [True, False])
async def test_odd_names_stay_on_their_line(use_program: bool, workspace: Path, context: ToolContext) -> None:
    (workspace / "two\nlines").write_text("needle\n")
    Path(os.fsdecode(bytes(workspace) + b"/caf\xe9")).write_text("needle\n")

    glob = await Glob(use_program=use_program).run({"pattern": "*"}, context)
    grep = await Grep(use_program=use_program).run({"pattern": "needle"}, context)
    tree = await List().run({}, context)

    assert "two\\nlines" in glob.text.splitlines()
    assert "two\\nlines:1:needle" in grep.text.splitlines()
    assert "two\\nlines" in tree.text.splitlines()
    for result in (glob, grep, tree):
        assert result.text.encode()
