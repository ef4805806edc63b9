"""What a server answers, as a result: text, images, files and structured data."""

import base64
import binascii
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from retinue.policy import taint
from retinue.ports.tool import Result, ToolContext
from retinue.schema.message import Media

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

_INLINE = 5_000_000
"""Characters of base64 that go to a model; larger data becomes a file."""
_MOST_IMAGES = 20
_STRUCTURED = 50_000


def result_of(name: str, answer: "CallToolResult", context: ToolContext, redact: Callable[[str], str]) -> Result:
    """`answer` as the outcome of a call of `name`."""
    files = _Files(context)
    pieces: list[str] = []
    media: list[Media] = []
    for block in answer.content:
        piece = _piece(block, files)
        if isinstance(piece, Media) and len(media) < _MOST_IMAGES:
            media.append(piece)
        else:
            pieces.append(piece if isinstance(piece, str) else f"[one more {piece.mime}, left out]")
    structured = b"" if answer.structured_content is None else msgspec.json.encode(answer.structured_content)
    text = "\n".join(pieces)
    if structured and not text:
        text = structured.decode()
    metadata: dict[str, object] = {"structured": answer.structured_content} if 0 < len(structured) < _STRUCTURED else {}
    text = redact(text) or ("" if media else "[no output]")
    if not answer.is_error:
        return Result(text=text, media=tuple(media), metadata=metadata)
    return msgspec.structs.replace(failure_of(name, text, context), media=tuple(media), metadata=metadata)


def failure_of(name: str, text: str, context: ToolContext) -> Result:
    """A failure in the server's own words, which are as little trusted as its answers.

    The label is set here, because the runtime labels what succeeded.
    """
    labels = taint.labels(name, taint.policy_of(context.agent.taint)) - {"sends"}
    return Result(status="error", text=text, taints=tuple(sorted(labels)))


def _piece(block: "ContentBlock", files: "_Files") -> str | Media:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return files.media(block.mime_type, block.data)
        case "resource_link":
            about = ", ".join(filter(None, (block.mime_type, block.description)))
            return f"[resource {block.name}: {block.uri}{f' ({about})' if about else ''}]"
        case "resource":
            resource = block.resource
            if "text" in resource.model_fields_set:
                return f"[resource {resource.uri}]\n{getattr(resource, 'text', '')}"
            held = files.media(resource.mime_type or "application/octet-stream", getattr(resource, "blob", ""))
            return f"[resource {resource.uri}]\n{held}" if isinstance(held, str) else held


class _Files:
    """Data that no model takes in is saved among the thread's files."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._count = 0

    def media(self, mime: str, data: str) -> Media | str:
        if mime.startswith("image/") and len(data) <= _INLINE:
            return Media(mime=mime, data=data)
        try:
            content = base64.b64decode(data, validate=True)
        except binascii.Error:
            return f"[{mime} that is not base64, left out]"
        self._count += 1
        kind = re.sub(r"[^a-z0-9]", "", mime.rpartition("/")[2].lower()) or "bin"
        folder = Path(self._context.files) / "outputs"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._context.call}-{self._count}.{kind}"
        path.write_bytes(content)
        return f"[{mime}, {len(content)} bytes, saved as {path}]"
