"""`retinue agents validate | fmt | new | schema`: agents as files on disk, before any catalog."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from retinue.cli.command import Told, command, wants_json
from retinue.cli.output import Progress, count, note, plain, print_json_line, print_problems, problem_json
from retinue.definition.ids import agent_id, precedence
from retinue.definition.load import load_all, load_text
from retinue.schema.errors import UsageError
from retinue.schema.problem import Problem, has_errors
from retinue.sources.directory import folder_prompts, trust_hash


class _File(msgspec.Struct, frozen=True):
    root: Path
    path: str
    """Below the root, with `/`."""
    is_named: bool = False
    """Somebody named this file, so it has to be an agent."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One agent of one file, as `validate` saw it."""

    file: str
    id: str | None
    problems: tuple[Problem, ...] = ()
    skipped: bool = False

    @property
    def status(self) -> str:
        if has_errors(self.problems):
            return "error"
        if self.skipped:
            return "skipped"
        return "warning" if self.problems else "ok"


@command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--strict", is_flag=True, help="Warnings fail, too.")
@click.option("--profile", type=click.Choice(["kodelet"]), help="Add another tool's requirements.")
def validate(*, paths: tuple[str, ...], strict: bool, profile: str | None) -> int:
    """Check agent files, or every agent file of folders. Exit 1 when one has errors."""
    files = [file for path in paths for file in _agent_files(Path(path))]
    results: list[Checked] = []
    first: dict[tuple[Path, str], str] = {}
    with Progress(len(files), "checking") as progress:
        for file in files:
            for checked in _check(file, profile):
                if checked.id is not None and not checked.skipped:
                    winner = first.setdefault((file.root, checked.id), checked.file)
                    checked = checked if winner == checked.file else _second(checked, winner)
                results.append(checked)
                if wants_json():
                    print_json_line(_checked_json(checked))
                else:
                    print_problems(checked.problems)
            progress.step()
    tally = {status: sum(c.status == status for c in results) for status in ("ok", "warning", "error", "skipped")}
    if not wants_json():
        found = ", ".join(f"{n} {status}" for status, n in tally.items() if n)
        note(f"{count(len(results), 'file')}: {found or 'there is no Markdown file'}")
    return int(tally["error"] > 0 or (strict and tally["warning"] > 0))


@command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file would change.")
@click.option("--diff", "as_diff", is_flag=True, help="Write nothing; print what would change.")
def fmt(*, files: tuple[str, ...], check: bool, as_diff: bool) -> int:
    """Rewrite frontmatter of any dialect in the canonical form; the body stays as it is."""
    from retinue.app.files import write_whole
    from retinue.definition.render import to_canonical

    code = 0
    for name in files:
        path = _existing(Path(name))
        if path.is_dir():
            raise UsageError(f"{name} is a folder; wanted files", hint=f"retinue agents fmt {name}/*.md")
        before = path.read_bytes()
        after, problems = to_canonical(before, file=name)
        errors = [p for p in problems if p.severity == "error"]
        changed = not errors and after != before
        if changed and not (check or as_diff):
            write_whole(path, after.decode())
        if errors or (check and changed):
            code = 1
        if wants_json():
            print_json_line({"file": name, "changed": changed, "problems": [problem_json(p) for p in errors]})
        elif changed and as_diff:
            click.echo(unified(before, after, name, name), nl=False)
        elif changed:
            click.echo(f"{plain(name)} {'would change' if check else 'rewritten'}")
        else:
            print_problems(errors)
    return code


@command()
@click.argument("name")
@click.option("--description", default="", help="What it is for: other agents choose by this.")
@click.option("--user", "for_user", is_flag=True, help="In your own folder instead of the project's.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def new(*, name: str, description: str, for_user: bool, force: bool) -> Told:
    """Write a new agent NAME (segments joined by /) to start from, trusted because you made it."""
    from retinue.app.files import write_whole
    from retinue.app.trust import trust
    from retinue.cli.here import settings_here
    from retinue.definition.scaffold import scaffold

    id = agent_id(f"{name}.md")
    if id is None:
        raise UsageError(f"{name!r} can't be an id; wanted segments like sales/assistant")
    settings = settings_here()
    folder = settings.home / "agents" if for_user else settings.root / ".retinue" / "agents"
    path = folder / f"{name}.md"
    if path.exists() and not force:
        raise UsageError(f"{path} is there already", hint="--force replaces it")
    text = scaffold(name, description=description)
    write_whole(path, text)
    loaded = load_text(text, file=str(path), id=id)
    if loaded.definition is not None and not for_user:
        trust(settings.home, folder, {id: trust_hash(loaded.definition)})
    return Told({"id": id, "file": str(path)}, f"wrote {path}\nedit it, then: retinue agents validate {path}")


@command()
def schema() -> Told:
    """Print the JSON Schema of the frontmatter, for editors."""
    from retinue.cli.output import print_json
    from retinue.definition.json_schema import json_schema

    found = json_schema()
    return Told(found, lambda: print_json(found))


def unified(before: bytes, after: bytes, old: str, new: str) -> str:
    from difflib import unified_diff

    was, now = (text.decode("utf-8", "replace").splitlines() for text in (before, after))
    changes = unified_diff(was, now, old, new, lineterm="")
    return "".join(f"{plain(line)}\n" for line in changes)


def _existing(path: Path) -> Path:
    if not (path.is_file() or path.is_dir()):
        raise UsageError(f"there is no file or folder {path}")
    return path


def _agent_files(path: Path) -> list[_File]:
    if _existing(path).is_file():
        return [_File(path.parent, path.name, is_named=True)]
    found: list[_File] = []
    for file in path.rglob("*.md"):
        relative = file.relative_to(path)
        if file.is_file() and not any(p.startswith(".") or p == "node_modules" for p in relative.parts):
            found.append(_File(path, relative.as_posix()))
    return sorted(found, key=lambda f: (agent_id(f.path) or f.path, precedence(f.path)))


def _check(file: _File, profile: str | None) -> Iterator[Checked]:
    path = file.root / file.path
    shown, id = str(path), agent_id(file.path)
    if file.is_named and file.path in ("prompt.md", "agent.md"):
        id = agent_id(f"{path.absolute().parent.name}/{file.path}")
    if id is None and not file.is_named:
        yield Checked(file=shown, id=None, skipped=True)
        return
    try:
        text = path.read_bytes()
    except OSError as e:
        yield Checked(file=shown, id=id, problems=(_error("unreadable", f"can't be read: {e.strerror}", shown),))
        return
    prompts, wanted = folder_prompts(file.root, file.path), "kodelet" if profile == "kodelet" else None
    for loaded in load_all(text, file=shown, id=id, prompts=prompts, profile=wanted):
        problems = loaded.problems
        if loaded.skipped and file.is_named and not has_errors(problems):
            problems = (*problems, _error("no-frontmatter", "has no frontmatter, so it is not an agent", shown))
        found = loaded.definition.id if loaded.definition is not None else id
        yield Checked(file=shown, id=found, problems=problems, skipped=loaded.skipped)


def _second(checked: Checked, winner: str) -> Checked:
    message = f"has the id {checked.id!r} of {winner}, which comes first"
    problem = Problem(code="duplicate-id", severity="warning", message=message, file=checked.file)
    return msgspec.structs.replace(checked, problems=(*checked.problems, problem))


def _error(code: str, message: str, file: str) -> Problem:
    return Problem(code=code, severity="error", message=message, file=file)


def _checked_json(checked: Checked) -> dict[str, object]:
    return {
        "file": checked.file,
        "id": checked.id,
        "status": checked.status,
        "problems": [problem_json(p) for p in checked.problems],
    }
