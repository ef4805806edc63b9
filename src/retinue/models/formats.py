"""The wire formats by the name that settings use. A new one is a file and a line here."""

from collections.abc import Mapping
from importlib import import_module
from typing import Literal

from retinue.models.wire import Format

FormatName = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "bridge", "scripted"]
"""The last two speak no wire of ours: `retinue.models.bridge`, `retinue.models.scripted`."""

FORMATS: Mapping[str, str] = {
    "openai-chat": "retinue.models.openai_chat:OpenAIChat",
    "openai-responses": "retinue.models.openai_responses:OpenAIResponses",
    "anthropic": "retinue.models.anthropic:Anthropic",
    "gemini": "retinue.models.gemini:Gemini",
}
BASE_URLS: Mapping[str, str] = {
    "openai-chat": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}


def load_format(name: str, *, max_output: int = 8192, renamed: bool = False) -> Format:
    """Import a format's module and make the format; see `Format` for the settings."""
    module, _, attribute = FORMATS[name].partition(":")
    made: Format = getattr(import_module(module), attribute)(max_output=max_output, renamed=renamed)
    return made
