"""What all events share. An event is a fact in the past tense and is never edited."""

import msgspec


class Event(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", forbid_unknown_fields=False
):
    """`at` is wall-clock seconds since the epoch; its sequence is the row's, not in the payload.

    `v` grows when a meaning changes. Fields may be added with defaults at any
    time; nothing is ever renamed or reused.
    """

    at: float
    v: int = 1
