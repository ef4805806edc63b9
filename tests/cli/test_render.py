import io

from retinue.cli.render import View
from retinue.cli.status import Screen
from retinue.runtime.follow import Happened
from retinue.runtime.live import Piece
from retinue.schema.completion import Completion, Usage
from retinue.schema.events.children import ChildStarted
from retinue.schema.events.runs import RunCompleted, RunWaiting
from retinue.schema.events.steps import CallSettled, ModelAnswered, ModelAsked, ModelFailed
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import CallId, ThreadId
from retinue.schema.message import Call, Outcome, Text

ROOT, CHILD = ThreadId("root"), ThreadId("child")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def happened(event: AnyEvent, thread: ThreadId = ROOT, path: tuple[str, ...] = ()) -> Happened:
    return Happened(thread=thread, seq=1, event=event, path=path)


def asked() -> Happened:
    return happened(ModelAsked(at=0, step=1, model="m", format="f"))


def test_text_that_streamed_is_not_shown_again_and_the_rest_is() -> None:
    out = Tty()
    view = View(Screen(out, io.StringIO()), ROOT)

    view.show(asked())
    view.show(Piece(ROOT, 1, 1, "text", 0, "Hello "))
    view.show(happened(ModelAnswered(at=0, parts=(Text(text="Hello world."),))))
    view.result(Completion(result="Hello world.", status="SUCCESS", reason="goal"))

    assert out.getvalue() == "Hello world.\n"


def test_a_failed_attempt_is_told_and_its_text_is_not_counted_as_shown() -> None:
    out = Tty()
    view = View(Screen(out, io.StringIO()), ROOT)

    view.show(asked())
    view.show(Piece(ROOT, 1, 1, "text", 0, "Hel"))
    view.show(happened(ModelFailed(at=0, error="cut", retry_in=2.0)))
    view.show(asked())
    view.show(happened(ModelAnswered(at=0, parts=(Text(text="Hello."),))))

    lines = out.getvalue().splitlines()
    assert (lines[0], lines[-1]) == ("Hel", "Hello.")
    assert "! cut; asked again in 2.0s" in lines[1]


def test_a_call_is_one_line_and_a_childs_is_indented_with_its_path() -> None:
    err = io.StringIO()
    view = View(Screen(io.StringIO(), err), ROOT)
    call = Call(id=CallId("c"), tool="bash", arguments='{"command":"make test"}')
    failed = Outcome(call=CallId("c"), tool="bash", status="error", text="exit 2\nmore")

    view.show(
        happened(ChildStarted(at=0, reference=CHILD, call=CallId("x"), agent="w", name="w", description="Works."))
    )
    view.show(happened(ModelAnswered(at=0, parts=(call,)), CHILD, ("w",)))
    view.show(happened(CallSettled(at=0, outcome=failed, duration=1.5), CHILD, ("w",)))

    assert err.getvalue() == "  ▸ w: Works.\n    w  ✗  bash make test  1.5s  error: exit 2 more\n"


def test_a_structured_result_is_printed_as_json() -> None:
    out = io.StringIO()

    View(Screen(out, io.StringIO()), ROOT).result(Completion(result={"n": 1}, status="SUCCESS", reason="goal"))

    assert out.getvalue() == '{\n  "n": 1\n}\n'


def test_the_status_tells_what_each_child_does_waits_for_and_has_cost_until_it_is_over() -> None:
    view = View(Screen(io.StringIO(), io.StringIO()), ROOT)
    started = ChildStarted(at=0, reference=CHILD, call=CallId("x"), agent="w", name="w")
    answered = ModelAnswered(at=0, parts=(), usage=Usage(input=900, output=100), cost=2_000_000)

    view.show(happened(started))
    view.show(happened(answered, CHILD, ("w",)))
    view.show(happened(RunWaiting(at=0, waiting_for="question"), CHILD, ("w",)))
    waiting = view.status()
    view.show(happened(RunCompleted(at=0, completion=Completion(result="", status="SUCCESS", reason="goal")), CHILD))

    assert waiting[1:] == ["  w  waits for a person · 0.0s · 1 step · 1.0k tokens · $0.0020"]
    assert len(view.status()) == 1
