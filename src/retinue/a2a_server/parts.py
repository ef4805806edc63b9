"""Parts of messages and artifacts, between A2A's words and ours.

A completion may say itself what its task shows, in `metadata.a2a`:

    {"artifacts": [{"name": "report", "parts": [{"text": …} | {"data": …} |
                    {"url": …} | {"raw": base64} | {"file": path}], "chunked": false}],
     "state": "rejected", "reply": "message"}

`mediaType` and `filename` may stand beside each. `chunked` streams every part as an update
of its own. Without `artifacts` the result is the artifact, and every attachment is one.
"""

import base64
import mimetypes
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from a2a.types.a2a_pb2 import Artifact
from a2a.types.a2a_pb2 import Part as WirePart
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from retinue.schema.completion import Completion
from retinue.schema.message import Media, Part, Text

RESULT = "result"
INPUT_MODES = (
    "text/plain",
    "application/json",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
)
OUTPUT_MODES = ("text/plain", "application/json", "application/octet-stream")


class SaidArtifact(msgspec.Struct, frozen=True, kw_only=True):
    parts: tuple[dict[str, object], ...]
    name: str = ""
    description: str = ""
    chunked: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion says of its task."""

    artifacts: tuple[SaidArtifact, ...] | None = None
    state: Literal["rejected"] | None = None
    reply: Literal["task", "message"] = "task"


def said_of(completion: Completion) -> Said:
    """Metadata that does not fit is an agent's slip, and its result still counts."""
    try:
        return msgspec.convert(completion.metadata.get("a2a", {}), Said)
    except msgspec.ValidationError:
        return Said()


def artifacts_of(completion: Completion, folder: Path) -> list[Artifact]:
    """What the completed task produced; `folder` is where the thread's files are."""
    said = said_of(completion)
    if said.artifacts is not None:
        return [
            Artifact(
                artifact_id=f"artifact-{number}",
                name=given.name,
                description=given.description,
                parts=[_given(part, folder) for part in given.parts],
            )
            for number, given in enumerate(said.artifacts, 1)
            if given.parts
        ]
    found: list[Artifact] = []
    if completion.status != "FAILED" and completion.result not in (None, ""):
        found.append(Artifact(artifact_id=RESULT, name=RESULT, parts=[value_part(completion.result)]))
    for number, path in enumerate(completion.attachments, 1):
        if (part := _file(path, folder)) is not None:
            found.append(Artifact(artifact_id=f"file-{number}", name=part.filename, parts=[part]))
    return found


def is_chunked(completion: Completion, artifact: Artifact) -> bool:
    said = said_of(completion).artifacts or ()
    return any(given.chunked and artifact.artifact_id == f"artifact-{n}" for n, given in enumerate(said, 1))


def value_part(value: object) -> WirePart:
    return WirePart(text=value) if isinstance(value, str) else ParseDict({"data": value}, WirePart())


def received(parts: Iterable[WirePart]) -> tuple[Part, ...]:
    """A caller's parts as the agent reads them. What lies behind a URL is not fetched: the agent's rules judge that."""
    return tuple(_received(part) for part in parts)


def sent(parts: Iterable[Part]) -> list[WirePart]:
    """Ours as a caller reads them."""
    found: list[WirePart] = []
    for part in parts:
        match part:
            case Text(text=text) if text:
                found.append(WirePart(text=text))
            case Media(mime=mime, data=str(data), name=name):
                found.append(WirePart(raw=base64.b64decode(data), media_type=mime, filename=name or ""))
            case _:
                continue
    return found


def _received(part: WirePart) -> Part:
    kind = part.WhichOneof("content")
    if kind == "raw":
        if part.media_type.startswith("text/"):
            return Text(text=part.raw.decode("utf-8", "replace"))
        data = base64.b64encode(part.raw).decode()
        return Media(mime=part.media_type or "application/octet-stream", data=data, name=part.filename or None)
    if kind == "data":
        value: object = MessageToDict(part).get("data")
        return Text(text=msgspec.json.encode(value).decode())
    if kind == "url":
        return Text(text=f"{part.filename or 'File'}: {part.url}")
    return Text(text=part.text)


def _given(part: dict[str, object], folder: Path) -> WirePart:
    if isinstance(file := part.get("file"), str):
        return _file(file, folder) or WirePart(text=f"{file} is not a file of this task")
    try:
        return ParseDict(part, WirePart())
    except ParseError:
        return value_part(part)


def _file(path: str, folder: Path) -> WirePart | None:
    base = folder.resolve()
    found = (base / path).resolve()
    if not found.is_relative_to(base) or not found.is_file():
        return None
    mime = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
    return WirePart(raw=found.read_bytes(), media_type=mime, filename=found.name)
