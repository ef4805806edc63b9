from retinue.cli.activity import Activity, Meter, task_of
from retinue.schema.completion import Usage
from retinue.schema.events.runs import RunWaiting
from retinue.schema.events.steps import AuxiliaryUsed, CallSettled, ModelAnswered, ModelAsked
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Outcome


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def call(id: str, arguments: str) -> Call:
    return Call(id=CallId(id), tool="bash", arguments=arguments)


def test_what_a_thread_does_is_its_request_its_open_calls_or_what_it_waits_for() -> None:
    activity = Activity()
    test, lint = call("a", '{"command":"make test"}'), call("b", '{"command":"make lint"}')

    activity.take(ModelAsked(at=0, step=1, model="m/x", format="f"))
    assert activity.text == "m/x thinks"
    activity.take(ModelAnswered(at=0, parts=(test, lint)))
    activity.hear("collecting\n45 pass")
    activity.hear("ed\n")
    assert activity.text == "bash make test, bash make lint | 45 passed"
    activity.take(CallSettled(at=0, outcome=Outcome(call=CallId("a"), tool="bash", status="ok", text="")))
    assert activity.text == "bash make lint"
    activity.take(RunWaiting(at=0, waiting_for="question"))
    assert activity.text == "waits for a person"


def test_the_task_of_a_child_is_what_its_caller_wrote() -> None:
    assert task_of(call("a", '{"agent_name":"scout","input":"look around"}')) == "look around"
    assert task_of(call("a", "{")) == ""
    assert task_of(None) == ""


def test_the_meter_counts_every_request_and_an_unknown_price_stays_unknown() -> None:
    meter = Meter(Clock())
    meter.take(ModelAnswered(at=0, parts=(), usage=Usage(input=900, output=100), cost=5))
    meter.take(AuxiliaryUsed(at=0, agent="title", model="m", usage=Usage(input=500), cost=None))

    assert meter.text("thinks") == "0.0s · 1 step · 1.5k tokens · $? · thinks"


def test_lines_that_a_command_prints_one_by_one_are_not_joined() -> None:
    activity = Activity()
    for piece in ("line 1\n", "line 2\n", "\n", "li", "ne 3"):
        activity.hear(piece)
    assert activity.text == "starts | line 3"
