"""Text or fields → `AgentDefinition`, with every problem located. Reads no files.

The way of a file: `frontmatter` splits it, `rescue` reads its YAML, `gather` looks
its keys up, `assemble` makes the definition.
"""

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

import msgspec

from retinue.definition.assemble import Body, Profile, PromptLookup, assemble
from retinue.definition.codes import Report
from retinue.definition.frontmatter import Parts, decoded_body, split
from retinue.definition.gather import gather
from retinue.definition.ids import agent_id
from retinue.definition.keys import canonical_name, grants_power
from retinue.definition.node import Fields, Items, Node, Unfit, from_python
from retinue.definition.rescue import read_frontmatter
from retinue.definition.tree import Broken
from retinue.schema.agent import AgentDefinition, Prompt
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

_SLUG = re.compile(r"[^a-z0-9]+")
_KEY = re.compile(r"\n([a-z][\w-]*)[ \t]*:(?=[ \t\n])")
_CODE = re.compile(r"\n[ \t]*(?:```|~~~)")


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one agent: a definition unless a problem is an error; `skipped`: no frontmatter, not an agent."""

    definition: AgentDefinition | None
    problems: tuple[Problem, ...]
    skipped: bool = False


def load_text(
    text: bytes | str,
    *,
    file: str,
    id: AgentId | None = None,
    prompts: PromptLookup | None = None,
    profile: Profile | None = None,
    known_tools: Collection[str] | None = None,
) -> Loaded:
    """The first agent of a file; `load_all` gives the others of a file that lists several."""
    return load_all(text, file=file, id=id, prompts=prompts, profile=profile, known_tools=known_tools)[0]


def load_all(
    text: bytes | str,
    *,
    file: str,
    id: AgentId | None = None,
    prompts: PromptLookup | None = None,
    profile: Profile | None = None,
    known_tools: Collection[str] | None = None,
) -> tuple[Loaded, ...]:
    """Every agent of a file: one, unless the frontmatter is a list of remote agents.

    Args:
        text: The file.
        file: Its name for people, in problems and the origins of rules.
        id: Its id; without one, the file's name is the id.
        prompts: Finds the prompts that sides name; without it they are not looked for.
        profile: What else the file must fulfil.
        known_tools: Python tools that an allow list may name.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    report = Report(file, known_tools=known_tools or ())
    parts, root = read_parts(data, report)
    if parts is None:
        return (Loaded(definition=None, problems=report.located(), skipped=not report.failed),)
    if isinstance(root, Items):
        return _load_list(root, parts, data, id or _id_of(file), report)
    if root is None:
        return (Loaded(definition=None, problems=report.located()),)
    id = id or _id_of(file)
    if id is None:
        report.add("no-id", 1, 1, f"'{file}' gives no id: a name like 'reviewer.md' is wanted")
        return (Loaded(definition=None, problems=report.located()),)
    body = Body(parts.body, parts.body_line, sha256(data).hexdigest())
    definition = assemble(gather(root, report), body, id, report, prompts=prompts, profile=profile)
    return (Loaded(definition=definition, problems=report.located()),)


def load_fields(
    fields: Mapping[str, object],
    *,
    file: str,
    id: AgentId | None = None,
    prompt: str | None = None,
    prompts: PromptLookup | None = None,
    known_tools: Collection[str] | None = None,
) -> Loaded:
    """The same keys from configuration, a database row or Python. Without `id` it is the slug, or the name as one."""
    report = Report(file, known_tools=known_tools or ())
    try:
        root = from_python(fields)
    except Unfit as error:
        report.add(error.code, 1, 1, f"'{error.path[:80]}' is {error}")
        return Loaded(definition=None, problems=report.located())
    given = gather(root if isinstance(root, Fields) else Fields({}, {}), report)
    id = id or _slug(given.text("slug") or given.text("name") or "")
    if id is None:
        report.add("no-id", 1, 1, "there is neither an id, a slug nor a name")
        return Loaded(definition=None, problems=report.located())
    definition = assemble(given, Body(prompt or ""), id, report, prompts=prompts)
    if definition is not None:
        canonical = msgspec.json.encode(definition, order="sorted")
        definition = msgspec.structs.replace(definition, hash=sha256(canonical).hexdigest())
    return Loaded(definition=definition, problems=report.located())


def load_prompt(text: bytes | str, *, file: str, name: str) -> tuple[Prompt | None, tuple[Problem, ...]]:
    """A side's prompt file; frontmatter is optional."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    report = Report(file)
    parts, root = read_parts(data, report)
    if parts is None and not report.failed:
        try:
            return Prompt(name=name, text=decoded_body(data).strip()), ()
        except Broken as error:
            report.add(error.code, error.line, error.column, error.message)
    if parts is None or not isinstance(root, Fields):
        return None, report.located()
    given = gather(root, report)
    definition = assemble(given, Body(parts.body, parts.body_line), AgentId(name), report)
    problems = tuple(p for p in report.located() if p.code != "missing-description")
    if definition is None:
        return None, problems
    limited = any(key in given.values for key in ("tools", "allowed_tools", "disallowed_tools"))
    prompt = Prompt(
        name=name,
        text=definition.prompt,
        model=definition.model,
        provider=definition.provider,
        tools=definition.tools if limited else None,
        hooks=definition.hooks,
        variables=definition.variables,
        env=definition.env,
        subagents=definition.subagents,
    )
    return prompt, problems


def read_parts(data: bytes, report: Report) -> tuple[Parts | None, Fields | Items | None]:
    """The parts of a file and the root of its frontmatter; what is missing, the report explains."""
    try:
        parts = split(data)
    except Broken as error:
        report.add(error.code, error.line, error.column, error.message)
        return None, None
    if parts is None:
        return None, None
    if parts.late:
        report.add("late-frontmatter", parts.block_line - 1, 1, "blank lines stand before the frontmatter")
    if parts.controls:
        report.add("control-in-body", *parts.controls, "the body holds a control character")
    root = read_frontmatter(parts.block, parts.block_line, report)
    if isinstance(root, Fields) and (found := _power_below(parts, root)) is not None:
        message = f"the frontmatter ends before '{found[0]}'; remove the line '---' above it"
        report.add("split-frontmatter", found[1], 1, message)
        return parts, None
    return parts, root


def _power_below(parts: Parts, root: Fields) -> tuple[str, int] | None:
    """A power key that the frontmatter lacks, in what a stray line `---` may have cut off it."""
    body = f"\n{parts.body}"
    end = body.rfind("\n---")
    if end < 0:
        return None
    for match in _KEY.finditer(body, 0, end):
        if not grants_power(match[1]) or _has(root, match[1]):
            continue
        if len(_CODE.findall(body, 0, match.start())) % 2 == 0:
            return match[1], parts.body_line + body.count("\n", 0, match.start())
    return None


def _has(root: Fields, key: str) -> bool:
    return any(canonical_name(name) == canonical_name(key) for name in root.fields)


def _load_list(root: Items, parts: Parts, data: bytes, id: AgentId | None, report: Report) -> tuple[Loaded, ...]:
    """S1: a list is several remote agents, each addressed by its name beside the file."""
    folder, slash, _ = (id or "").rpartition("/")
    body = Body("", parts.body_line, sha256(data).hexdigest())
    loaded: list[Loaded] = []
    for item in root.items:
        own = Report(report.file)
        definition = _remote(item, folder + slash, body, own)
        loaded.append(Loaded(definition=definition, problems=own.located()))
    if not loaded:
        report.add("bad-shape", parts.block_line, 1, "the frontmatter is an empty list; wanted a map of keys")
        loaded.append(Loaded(definition=None, problems=report.located()))
    return tuple(loaded)


def _remote(item: Node, folder: str, body: Body, report: Report) -> AgentDefinition | None:
    place = item.line, item.column
    if not isinstance(item, Fields):
        report.add("bad-shape", *place, "a list in the frontmatter holds remote agents, each a map")
        return None
    given = gather(item, report)
    given.values.setdefault("kind", "remote")
    given.places.setdefault("kind", place)
    name = _slug(given.text("name") or "")
    if name is None:
        report.add("no-id", *place, "each agent of a list needs a 'name'")
        return None
    if given.values["kind"] != "remote":
        report.add("bad-shape", *place, "only remote agents may share a file")
    return assemble(given, body, AgentId(folder + name), report)


def _id_of(file: str) -> AgentId | None:
    """The file's own name, or its folder's for `prompt.md` and `agent.md`."""
    segments = file.replace("\\", "/").split("/")
    for count in (2, 1):
        found = agent_id("/".join(segments[-count:])) if len(segments) >= count else None
        if found is not None and "/" not in found:
            return found
    return None


def _slug(name: str) -> AgentId | None:
    slug = _SLUG.sub("-", name.lower()).strip("-")
    return AgentId(slug) if slug else None
