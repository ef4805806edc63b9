"""The one union of events, and its bytes.

A new event is a class in its family and a name here; the type checker then
points at every `match` that must know it.
"""

import msgspec

from retinue.schema.events.children import (
    ChildMessaged,
    ChildReported,
    ChildStarted,
    FileAttached,
    VariablesProvided,
    VariablesRequested,
)
from retinue.schema.events.people import QuestionAsked, QuestionSettled, TaintMarked
from retinue.schema.events.runs import (
    GraceStarted,
    MessageReceived,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunStarted,
    RunWaiting,
    TurnEnded,
)
from retinue.schema.events.steps import (
    AuxiliaryUsed,
    CallSettled,
    CallStarted,
    ContextCompacted,
    HistoryChanged,
    HookFailed,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
)
from retinue.schema.events.threads import (
    SegmentStarted,
    ThreadForked,
    ThreadStarted,
    ThreadSummarized,
    ThreadTerminated,
    ThreadTitled,
)

ThreadEvent = ThreadStarted | ThreadTitled | ThreadSummarized | SegmentStarted | ThreadForked | ThreadTerminated
RunEvent = (
    MessageReceived
    | RunStarted
    | RunInterrupted
    | RunResumed
    | RunWaiting
    | RunCompleted
    | RunFailed
    | TurnEnded
    | GraceStarted
)
StepEvent = (
    ModelAsked
    | ModelAnswered
    | ModelFailed
    | CallStarted
    | CallSettled
    | ContextCompacted
    | HistoryChanged
    | HookFailed
    | AuxiliaryUsed
)
PeopleEvent = QuestionAsked | QuestionSettled | TaintMarked
ChildEvent = ChildStarted | ChildMessaged | ChildReported | VariablesRequested | VariablesProvided | FileAttached

AnyEvent = ThreadEvent | RunEvent | StepEvent | PeopleEvent | ChildEvent

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)

encode = _encoder.encode


def decode(data: bytes) -> AnyEvent:
    return _decoder.decode(data)
