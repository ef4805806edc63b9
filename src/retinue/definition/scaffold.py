"""The file that `retinue agents new` writes."""

from collections.abc import Sequence

from retinue.definition.render import dump


def scaffold(
    name: str,
    *,
    description: str = "",
    model: str | None = None,
    tools: Sequence[str] = ("read", "glob", "grep", "list"),
) -> str:
    """A small agent that loads without a warning. `name` may be an id with segments."""
    label = name.rpartition("/")[2]
    fields: dict[str, object] = {
        "name": label,
        "description": description or f"Says in one sentence when to call {label}.",
        **({"model": model} if model else {}),
        "tools": list(tools),
    }
    return f"""---
{dump(fields)}---

You are {label}. Say here what the agent is for, how it works, and what it must not do.

Your task: {{{{prompt}}}}
"""
