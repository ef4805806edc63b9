"""What people call models: aliases, display names, and who makes what.

Pure. Which provider is asked is decided in `retinue.models.resolve`.
"""

import re
from collections.abc import Mapping

Maker = str

ALIASES: Mapping[str, str] = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-1",
    "claude-sonnet-4": "claude-sonnet-4-0",
    "claude-opus-4": "claude-opus-4-0",
    "gemini-3-flash": "gemini-3-flash-preview",
    "gemini-3-pro": "gemini-3-pro-preview",
    "gemini-3.1-pro": "gemini-3.1-pro-preview",
}
"""Shipped; the operator's table comes first."""

MAKERS: Mapping[Maker, tuple[str, ...]] = {
    "anthropic": ("anthropic", "claude"),
    "openai": ("openai",),
    "gemini": ("gemini", "google"),
}
"""Who makes models, and the names that people give a provider that is the maker."""

HOSTS: Mapping[str, Maker] = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
}

_MADE_BY = ((re.compile(r"claude\b"), "anthropic"), (re.compile(r"gemini-"), "gemini"))
_OPENAI = re.compile(r"gpt-|chatgpt-|codex-|o\d(-|$)")
_IN_BRACKETS = re.compile(r"\s*\([^)]*\)")
_TURNED = re.compile(r"claude-(\d+)(?:-(\d+))?-(opus|sonnet|haiku)(?:-(?:low|medium|high|xhigh|max))?(?:-thinking)?")


def normalised(name: str) -> str:
    """The id that a display name stands for: `Claude Sonnet 4.5 (copilot)` is `claude-sonnet-4-5`."""
    text = re.sub(r"[\s_]+", "-", _IN_BRACKETS.sub("", name).strip().lower())
    head, slash, last = text.rpartition("/")
    if last.startswith("claude"):
        last = last.replace(".", "-")
        turned = _TURNED.fullmatch(last)
        # From the fourth generation on the family comes first.
        if turned and int(turned[1]) >= 4:
            last = f"claude-{turned[3]}-{turned[1]}" + (f"-{turned[2]}" if turned[2] else "")
    return head + slash + last


def maker_of(model: str) -> Maker | None:
    """Who makes a model, by its (normalised) name."""
    last = model.rsplit("/", 1)[-1]
    if _OPENAI.match(last):
        return "openai"
    return next((maker for pattern, maker in _MADE_BY if pattern.match(last)), None)
