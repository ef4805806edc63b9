"""The volatile end of a request: what changes from step to step and must not spoil the prompt cache."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_LONGEST = 200


def tail_for(work: "Work") -> str:
    """The child registry: children that are at work, or can be spoken to again."""
    children = {id: c for id, c in work.state.children.items() if c.started.resumable or not c.ended}
    if not children:
        return ""
    lines = ["<children>"]
    for reference, child in children.items():
        started = child.started
        title = f" ({started.title})" if started.title else ""
        lines.append(
            f"- {started.name}{title}: reference {reference}, agent {started.agent}, status: {_line(child.shown)}"
        )
    return "\n".join([*lines, "</children>"])


def _line(words: str) -> str:
    """A child's own words on one line: they can't end the registry or fill the window."""
    return " ".join(words.split())[:_LONGEST].replace("<", "‹")
