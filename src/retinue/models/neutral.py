"""The format of models that speak no wire: turns as they are in the log.

The scripted model and the bridge read requests back from it, each turn one JSON
object.
"""

from collections.abc import Sequence

import msgspec

from retinue.ports.model import Fragment, Head
from retinue.schema.message import Turn

NAME = "neutral"

_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(Head)
_turn = msgspec.json.Decoder(Turn)
_ASSISTANT = _encoder.encode(Turn(role="assistant", parts=())).split(b",", 1)[0]


def encode_head(head: Head) -> Fragment:
    return Fragment(_encoder.encode(head))


def encode_turn(turn: Turn) -> Fragment:
    return Fragment(_encoder.encode(turn))


def decode_head(fragment: Fragment) -> Head:
    return _head.decode(fragment.data)


def decode_turn(fragment: Fragment) -> Turn:
    return _turn.decode(fragment.data)


def count_assistant(fragments: Sequence[Fragment]) -> int:
    """How many of the turns the model said, without decoding them."""
    return sum([fragment.data.startswith(_ASSISTANT) for fragment in fragments])
