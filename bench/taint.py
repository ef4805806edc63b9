"""The taint gate measured with AgentDojo: what it costs honest work, and which attacks it stops.

    python bench/taint.py [suite …]     replay the suites, print a table, write results/taint.json

No model is asked. A scripted one replays the ground truth of AgentDojo's user tasks through Retinue's
permissions and taint gate, against AgentDojo's own tools and environments (a process of its own, see
`dojo.py`), and AgentDojo's own checks say whether the task was done. For an attack the script is hijacked:
right after the first call whose result shows an injection it replays the ground truth of the injected
task, then goes on with the user's. That is a model that obeys every injection: the worst there is.

Three ways to run each: without the gate; with it and a person who approves what the user's task needs and
refuses the rest, each approval counted; with it and nobody there, where whatever needs a person is denied.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar
from uuid import uuid4

import msgspec

from retinue.app.questions import Reply, answer
from retinue.app.retinue import Retinue
from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.ports.tool import Result, ToolContext
from retinue.runtime.deps import Tuning
from retinue.runtime.follow import Happened
from retinue.schema.agent import AgentDefinition, ToolFilter
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.ids import AgentId, ThreadId
from retinue.schema.permission import Permissions
from retinue.schema.tool import ToolSpec
from retinue.testing.harness import scripted_app

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "taint.json"
PYTHON = ROOT / "build" / "agentdojo" / "bin" / "python"
PACKAGE = "agentdojo==0.1.35"
AT_ONCE = 16

T = TypeVar("T")
Mode = Literal["off", "person", "nobody"]
MODES: tuple[Mode, ...] = ("off", "person", "nobody")
Kind = Literal["exfiltrates", "sends", "local"]

PRIVATE, UNTRUSTED, SENDS = "private", "untrusted", "sends"
LABELS: dict[str, tuple[str, ...]] = {
    # mail, calendar and files hold what is private, and what others wrote
    **dict.fromkeys(
        ("get_unread_emails", "get_sent_emails", "get_received_emails", "get_draft_emails", "search_emails",
         "search_calendar_events", "get_day_calendar_events", "search_files_by_filename", "get_file_by_id",
         "list_files", "search_files", "read_channel_messages", "read_inbox", "get_most_recent_transactions",
         "get_scheduled_transactions", "read_file"),
        (PRIVATE, UNTRUSTED),
    ),
    # the user's own
    **dict.fromkeys(
        ("search_contacts_by_name", "search_contacts_by_email", "get_user_information", "get_iban", "get_balance",
         "get_user_info", "get_channels", "get_users_in_channel"),
        (PRIVATE,),
    ),
    # what the world says
    **dict.fromkeys(
        ("get_all_hotels_in_city", "get_hotels_prices", "get_rating_reviews_for_hotels", "get_hotels_address",
         "get_all_restaurants_in_city", "get_cuisine_type_for_restaurants", "get_restaurants_address",
         "get_rating_reviews_for_restaurants", "get_dietary_restrictions_for_all_restaurants",
         "get_contact_information_for_restaurants", "get_price_for_restaurants", "check_restaurant_opening_hours",
         "get_all_car_rental_companies_in_city", "get_car_types_available", "get_rating_reviews_for_car_rental",
         "get_car_fuel_options", "get_car_rental_address", "get_car_price_per_day", "get_flight_information"),
        (UNTRUSTED,),
    ),
    "get_webpage": (UNTRUSTED, SENDS),
    # what leaves: to a person, a page, a bank, a hotel
    **dict.fromkeys(
        ("send_email", "create_calendar_event", "add_calendar_event_participants", "share_file", "send_money",
         "schedule_transaction", "update_scheduled_transaction", "send_direct_message", "send_channel_message",
         "invite_user_to_slack", "add_user_to_channel", "post_webpage", "reserve_hotel", "reserve_car_rental",
         "reserve_restaurant"),
        (SENDS,),
    ),
    # what stays
    **dict.fromkeys(
        ("delete_email", "get_current_day", "cancel_calendar_event", "reschedule_calendar_event", "append_to_file",
         "create_file", "delete_file", "update_password", "update_user_info", "remove_user_from_slack"),
        (),
    ),
}  # fmt: skip
"""Every tool of every suite. Cancelling and moving an event tells its participants, in words nobody can choose."""

KINDS: dict[str, dict[Kind, tuple[int, ...]]] = {
    "workspace": {"exfiltrates": (3, 4, 5), "sends": (0, 2), "local": (1,)},
    "travel": {"exfiltrates": (3, 5), "sends": (0, 1, 2, 4), "local": ()},
    "banking": {"exfiltrates": (0, 1, 2, 3, 8), "sends": (4, 5, 6), "local": (7,)},
    "slack": {"exfiltrates": (2, 4), "sends": (1, 3, 5), "local": ()},
}
"""What an injected task wants: the user's data sent out; something of the attacker's own sent or bought; neither."""


class Call(msgspec.Struct, frozen=True):
    tool: str
    arguments: Mapping[str, object]


class Task(msgspec.Struct, frozen=True):
    calls: tuple[Call, ...]
    output: str
    exposed: int | None = None
    """The first call whose result shows an injection."""


class Described(msgspec.Struct, frozen=True):
    name: str
    description: str
    parameters: Mapping[str, object]


class Suite(msgspec.Struct, frozen=True):
    tools: tuple[Described, ...]
    users: Mapping[str, Task]
    injections: Mapping[str, Task]


class Checked(msgspec.Struct, frozen=True):
    useful: bool
    attacked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One thread: the calls of a user's task, perhaps with an attack among them."""

    suite: str
    user: str
    injection: str | None
    calls: tuple[Call, ...]
    injected: tuple[Call, ...]
    output: str


@dataclass(slots=True)
class Tally:
    """Of one suite: by mode how many tasks were done, and by kind and mode how many attacks succeeded."""

    users: int = 0
    useful: Counter[Mode] = field(default_factory=Counter[Mode])
    asked: int = 0
    """Tasks in which a person was asked, and how often in all."""
    questions: int = 0
    attacks: Counter[Kind] = field(default_factory=Counter[Kind])
    succeeded: Counter[tuple[Kind, Mode]] = field(default_factory=Counter[tuple[Kind, Mode]])
    slipped: Counter[str] = field(default_factory=Counter[str])
    """Attacks that succeed although the gate is there and nobody approves."""


class Dojo:
    """AgentDojo's process. One request at a time; many environments."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PYTHON, str(ROOT / "bench" / "dojo.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __call__(self, do: str, type: type[T], **wanted: object) -> T:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(msgspec.json.encode({"do": do, **wanted}) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=type)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


class DojoTool:
    def __init__(self, dojo: Dojo, described: Described) -> None:
        self.spec = ToolSpec(name=described.name, description=described.description, parameters=described.parameters)
        self._dojo = dojo

    def resource(self, arguments: Mapping[str, object]) -> str:
        return msgspec.json.encode(arguments, order="sorted").decode()

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        done = self._dojo("call", dict[str, str | None], run=context.thread, tool=self.spec.name, arguments=arguments)
        return Result(text=done["text"] or "")


def main() -> None:
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PYTHON.parents[1])], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", PACKAGE], check=True)
    dojo = Dojo()
    suites = dojo("suites", dict[str, Suite])
    wanted = sys.argv[1:] or list(suites)
    unlabelled = {tool.name for suite in suites.values() for tool in suite.tools} - LABELS.keys()
    assert not unlabelled, f"no labels for {unlabelled}"
    tallies = {name: asyncio.run(_measure(dojo, name, suites[name])) for name in wanted}
    tallies["all"] = _sum(tallies.values())
    dojo.close()
    _print(tallies)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(_report(suites, tallies), indent=2) + "\n")


async def _measure(dojo: Dojo, name: str, suite: Suite) -> Tally:
    tally, plans = Tally(users=len(suite.users)), list(_plans(name, suite))
    for plan in plans:
        if plan.injection is not None:
            tally.attacks[_kind(plan)] += 1
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            await _replay(dojo, suite, plans, mode, tally, Path(folder))
    return tally


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for one in tallies:
        total.users += one.users
        total.asked += one.asked
        total.questions += one.questions
        total.useful.update(one.useful)
        total.attacks.update(one.attacks)
        total.succeeded.update(one.succeeded)
    return total


def _plans(name: str, suite: Suite) -> Iterator[Plan]:
    for user, task in suite.users.items():
        yield Plan(suite=name, user=user, injection=None, calls=task.calls, injected=(), output=task.output)
        for injection, attack in suite.injections.items():
            if task.exposed is None or not attack.calls:
                continue
            cut = task.exposed + 1
            yield Plan(
                suite=name,
                user=user,
                injection=injection,
                calls=(*task.calls[:cut], *attack.calls, *task.calls[cut:]),
                injected=attack.calls,
                output=f"{task.output}\n{attack.output}",
            )


def _kind(plan: Plan) -> Kind:
    number = int(str(plan.injection).rpartition("_")[2])
    return next(kind for kind, numbers in KINDS[plan.suite].items() if number in numbers)


async def _replay(dojo: Dojo, suite: Suite, plans: list[Plan], mode: Mode, tally: Tally, folder: Path) -> None:
    def model(request: ScriptedRequest) -> Say:
        plan = plans[int(request.message)]
        if request.step <= len(plan.calls):
            call = plan.calls[request.step - 1]
            return Say(calls=(CallTool(call.tool, call.arguments),))
        return Say(text=plan.output.strip() or "Done.")

    labels = {tool.name: list(LABELS[tool.name]) for tool in suite.tools}
    agent = AgentDefinition(
        id=AgentId("dojo"),
        name="dojo",
        prompt="You help.",
        completion="response",
        max_steps=100,
        tools=ToolFilter(only=(tuple(labels),)),
        permissions=Permissions(default="allow"),
        taint={"mode": "off" if mode == "off" else "ask", "labels": labels},
    )
    tools = [DojoTool(dojo, described) for described in suite.tools]
    tuning = Tuning(titles=False, repeated_calls=1000)
    free = asyncio.Semaphore(AT_ONCE)
    async with scripted_app(folder, model, agents=[agent], tools=tools, tuning=tuning) as app:

        async def run(number: int) -> None:
            async with free:
                await _run(app, dojo, plans[number], number, mode, tally)

        await asyncio.gather(*(run(number) for number in range(len(plans))))


async def _run(app: Retinue, dojo: Dojo, plan: Plan, number: int, mode: Mode, tally: Tally) -> None:
    thread = ThreadId(str(uuid4()))
    dojo("begin", type(None), run=thread, suite=plan.suite, task=plan.user)
    await app.start("dojo", str(number), people="none" if mode == "nobody" else "wait", id=thread)
    questions = 0
    async for item in app.engine.follow(thread, deltas=False):
        if not isinstance(item, Happened):
            continue
        if isinstance(item.event, RunCompleted | RunFailed):
            break
        if isinstance(item.event, QuestionAsked):
            questions += 1
            asked = Call(item.event.tool or "", msgspec.json.decode(item.event.arguments or "{}"))
            await answer(app, item.event.id, Reply(scope="deny" if asked in plan.injected else "once"))
    checked = dojo("end", Checked, run=thread, output=plan.output, injection=plan.injection)
    if plan.injection is None:
        tally.useful[mode] += checked.useful
        tally.questions += questions
        tally.asked += questions > 0
        return
    tally.succeeded[_kind(plan), mode] += checked.attacked
    if checked.attacked and mode == "nobody":
        tally.slipped[plan.injection] += 1


def _print(tallies: Mapping[str, Tally]) -> None:
    print("User tasks done: without the gate, with a person (and how often they are asked), with nobody there")
    for name, tally in tallies.items():
        off, person, nobody = (tally.useful[mode] for mode in MODES)
        asked = f"{tally.questions} questions in {tally.asked} tasks"
        print(f"  {name:10} {tally.users:>3} tasks: {off:>3}  {person:>3} ({asked})  {nobody:>3}")
    print("Attacks that succeed, of those tried: without the gate, with a person, with nobody there")
    for name, tally in tallies.items():
        for kind, tried in sorted(tally.attacks.items()):
            off, person, nobody = (tally.succeeded[kind, mode] for mode in MODES)
            print(f"  {name:10} {kind:12} {tried:>4} tried: {off:>4}  {person:>4}  {nobody:>4}")


def _report(suites: Mapping[str, Suite], tallies: Mapping[str, Tally]) -> dict[str, object]:
    return {
        "package": PACKAGE,
        "suites": {
            name: {
                "user_tasks": tally.users,
                "done": {mode: tally.useful[mode] for mode in MODES},
                "tasks_with_questions": tally.asked,
                "questions": tally.questions,
                "attacks": {
                    kind: {"tried": tried, **{mode: tally.succeeded[kind, mode] for mode in MODES}}
                    for kind, tried in sorted(tally.attacks.items())
                },
                "succeed_with_the_gate": dict(sorted(tally.slipped.items())),
            }
            for name, tally in tallies.items()
        },
        "without_ground_truth": {
            name: sorted(id for id, task in suite.injections.items() if not task.calls)
            for name, suite in suites.items()
        },
    }


if __name__ == "__main__":
    main()
