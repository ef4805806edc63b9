import msgspec
import pytest

from retinue.app import views
from retinue.ports.store import Account, Caps, Listing, ThreadRow
from retinue.runtime.project import project
from retinue.schema.agent import AgentDefinition, McpServer
from retinue.schema.events.children import ChildReported, ChildStarted, VariablesProvided
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.threads import Pin, ThreadStarted
from retinue.schema.ids import DEFAULT_TENANT, AgentId, CallId, QuestionId, ThreadId
from retinue.schema.thread import ThreadStatus

ROOT, CHILD = ThreadId("root"), ThreadId("child")
BOSS = Pin(definition=AgentDefinition(id=AgentId("boss"), name="boss"), commit="abcdef012345")


def row(id: ThreadId, status: ThreadStatus, *, parent: ThreadId | None = None, at: float = 10.0) -> ThreadRow:
    listing = Listing(status=status, waiting_for="question", agent=id, steps=2, tokens=9, cost=9, updated_at=at + 5)
    return ThreadRow(
        id=id,
        tenant=DEFAULT_TENANT,
        root=ROOT,
        parent=parent,
        created_at=at,
        head=1,
        inbox_head=0,
        drained=0,
        runnable_at=None,
        owner=None,
        lease_until=0,
        epoch=0,
        listing=listing,
    )


def account(id: ThreadId, cost: int, *, unpriced: int = 0) -> Account:
    return Account(
        thread=id,
        parent=None,
        caps=Caps(cost=2_000_000_000),
        spent_cost=cost,
        spent_tokens=100,
        reserved_cost=7,
        reserved_tokens=3,
        unpriced=unpriced,
    )


@pytest.mark.spec("OBS-04")
def test_a_tree_joins_rows_accounts_and_what_the_parent_knows() -> None:
    started = ChildStarted(at=0, reference=CHILD, call=CallId("c"), agent="child", name="worker-1", commit="123")
    said = ChildReported(at=0, reference=CHILD, status="reading page 3", words=True)
    state = project([(1, ThreadStarted(at=0, thread=ROOT, pin=BOSS)), (2, started), (3, said)])
    asked = QuestionAsked(at=0, id=QuestionId("q"), call=CallId("c"), kind="text", prompt="Which?")

    tree = views.tree(
        ROOT,
        [row(CHILD, "waiting", parent=ROOT, at=12), row(ROOT, "completed")],
        [account(ROOT, 500), account(CHILD, 100, unpriced=1)],
        {ROOT: state},
        [(CHILD, asked)],
        now=112.0,
    )

    (child,) = tree.children
    assert (tree.agent, tree.commit, tree.cost, tree.tokens, tree.reserved_cost) == (
        "root",
        "abcdef012345",
        500,
        100,
        7,
    )
    assert (tree.seconds, tree.waits_for, tree.caps.cost) == (5.0, None, 2_000_000_000)
    assert (child.name, child.commit, child.said, child.waits_for) == ("worker-1", "123", "reading page 3", "Which?")
    assert (child.seconds, child.cost) == (100.0, None)


@pytest.mark.spec("SUB-17", "PERM-09")
def test_no_value_of_a_variable_is_ever_shown() -> None:
    definition = AgentDefinition(
        id=AgentId("a"),
        name="a",
        env={"KEY": "s3cret"},
        inline_mcp_servers={"git": McpServer(env={"TOKEN": "s3cret"}, headers={"Authorization": "s3cret"})},
    )
    started = ThreadStarted(at=0, thread=ROOT, pin=Pin(definition=definition), env={"A": "s3cret"})
    provided = VariablesProvided(at=0, request="r", names=("A",), values={"A": "s3cret"})

    exported = views.export(views.summary(row(ROOT, "idle")), [(1, started), (2, provided)])

    text = msgspec.json.encode(exported).decode()
    assert "s3cret" not in text
    assert text.count(views.SECRET) == 5
    assert [e["seq"] for e in exported.events] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ('{"command":"ls","timeout":3}', "ls"),
        ('{"path":"a.py"}', "a.py"),
        ('{"n":1}', '{"n":1}'),
        ("{}", ""),
        ("", ""),
        ("{broken", "{broken"),
    ],
)
def test_a_call_is_about_its_command_path_or_arguments(arguments: str, about: str) -> None:
    assert views.resource_of(arguments) == about
