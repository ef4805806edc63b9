"""Every kind of problem a file can have: its code, how bad it is, and what it means."""

from collections.abc import Collection

from retinue.schema.problem import Problem, Severity

CODES: dict[str, tuple[Severity, str]] = {
    # the file
    "not-utf8": ("error", "The file is not UTF-8 text."),
    "file-too-large": ("error", "The file is larger than 1 MiB."),
    "frontmatter-too-large": ("error", "The frontmatter is larger than 64 KiB."),
    "no-frontmatter": ("error", "The file was asked for by name and has no frontmatter."),
    "unclosed-frontmatter": ("error", "No line `---` ends the frontmatter."),
    "split-frontmatter": ("error", "A line `---` ends the frontmatter before keys that grant power."),
    "late-frontmatter": ("warning", "Blank lines stand before the frontmatter."),
    "control-character": ("error", "The frontmatter holds a control character or an unusual line break."),
    "control-in-body": ("warning", "The body holds a control character."),
    # the YAML
    "bad-yaml": ("error", "The frontmatter is not YAML, in a place that is not plain text."),
    "bad-shape": ("error", "The frontmatter is neither a map nor a list of remote agents."),
    "yaml-alias": ("error", "YAML anchors and aliases are not read."),
    "too-deep": ("error", "Values are nested deeper than 20."),
    "too-many-values": ("error", "The frontmatter holds thousands of values."),
    "duplicate-key": ("error", "A key is given twice, perhaps under two of its names."),
    "hidden-power": ("error", "Broken text holds what looks like a key that grants power."),
    "rescued-text": ("warning", "A text value is not YAML; it was read as plain text."),
    # keys and values
    "bad-value": ("error", "A value is not what its key wants."),
    "everything": ("error", "A value could mean every tool or permission; it must be said outright."),
    "foreign-value": ("warning", "A value of another tool's meaning, or said twice; it is not used."),
    "empty-value": ("warning", "A key has no value; an unquoted # starts a comment."),
    "unknown-key": ("warning", "No such key; it is kept and not used."),
    "unsupported-key": ("warning", "Another tool's key that has no meaning here; it is kept and not used."),
    "not-honoured": ("warning", "A file may not loosen permissions or run shell hooks; it is kept and not used."),
    "missing-key": ("error", "A required key is missing."),
    "missing-description": ("warning", "Without a description no other agent knows when to call this one."),
    "missing-prompt": ("error", "There is no system prompt: the body is empty."),
    "no-id": ("error", "The file's name gives no id."),
    # tools, prompts, sides
    "unknown-tool": ("warning", "No such tool: dropped where it is allowed, kept as a pattern where it is denied."),
    "unavailable-tool": ("warning", "A tool of another program that does not exist here; treated like an unknown one."),
    "dangling-prompt": ("error", "A side names a prompt that does not exist."),
    "no-turn-limit": ("warning", "Two AI sides without max_session_turns: 40 is used."),
    "unknown-placeholder": ("warning", "A `{{name}}` that is neither an input nor a variable; it stays as it is."),
}


class Report:
    """Collects the problems of one file, and carries what its values are judged by."""

    __slots__ = ("failed", "file", "keep_unknown", "known_tools", "problems")

    def __init__(self, file: str, *, known_tools: Collection[str] = (), keep_unknown: bool = False) -> None:
        self.file = file
        self.known_tools = known_tools
        self.keep_unknown = keep_unknown
        """Allowed tools that nobody knows stay in the list: for a formatter, which must not delete."""
        self.problems: list[Problem] = []
        self.failed = False

    def add(self, code: str, line: int, column: int, message: str, hint: str | None = None) -> None:
        severity = CODES[code][0]
        if severity == "error":
            self.failed = True
        problem = Problem(
            code=code, severity=severity, message=message, file=self.file, line=line, column=column, hint=hint
        )
        self.problems.append(problem)

    def located(self) -> tuple[Problem, ...]:
        """In the order of their places."""
        return tuple(sorted(self.problems, key=lambda p: (p.line, p.column)))
