"""What a life of the killed run tells the test."""

from typing import Literal

import msgspec

Moment = Literal["before", "after"]


class Thread(msgspec.Struct, frozen=True):
    agent: str
    status: str
    calls: list[str]
    interrupted: int
    messages: list[str]


class Life(msgspec.Struct, frozen=True, kw_only=True):
    result: object = None
    threads: list[Thread] = []
    effects: list[str] = []
    asked: int = 0
    reserved: int = 0
    sent: int = 0
    """Tokens of the requests that reached the model, over all lives."""
    spent: int = 0
    """Tokens on the account of the root."""
    exceeded: bool = False
    """An account has passed its cap."""
    ledger: list[str] = []
    """What the check of the database found wrong."""
    acknowledged: bool = False
    commits: int = 0
    error: str = ""
    at: int = 0
    moment: Moment = "after"
    killed: bool = False


class Told(msgspec.Struct, frozen=True):
    whole: Life
    lives: list[Life]
