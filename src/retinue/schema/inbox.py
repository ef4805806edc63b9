"""What an inbox entry of each kind carries. The store keeps it as bytes; draining turns it into events."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from retinue.schema.completion import Completion
from retinue.schema.events.children import FileAttached
from retinue.schema.events.people import GrantScope
from retinue.schema.ids import QuestionId, ThreadId
from retinue.schema.message import Part
from retinue.schema.thread import SideName


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    parts: tuple[Part, ...]
    side: SideName = "b"
    silent: bool = False
    sender: ThreadId | None = None
    inputs: Mapping[str, object] = {}
    """Declared inputs of the agent, when this message starts its run."""
    files: tuple[FileAttached, ...] = ()
    """Copied to the thread's files before this was said."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    question: QuestionId
    answer: object = None
    scope: GrantScope | None = None
    pattern: str | None = None
    by: str = ""
    files: tuple[FileAttached, ...] = ()
    """Copied to the thread's files to be the answer."""


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Interrupt, resume, cancel, terminate."""

    by: str = "user"
    reason: str = ""


class ChildReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A child to its parent: an end, a status, or words of its own."""

    child: ThreadId
    kind: Literal["completed", "status", "notice", "terminated"]
    completion: Completion | None = None
    text: str = ""
    attachments: tuple[str, ...] = ()
    """Paths in the child's files; the parent copies them to its own."""
    silent: bool = True
    taints: tuple[str, ...] = ()


class Variables(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    request: str
    values: Mapping[str, str] = {}
    """Sealed."""
