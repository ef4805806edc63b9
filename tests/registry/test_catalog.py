import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from retinue.ports.source import Entry, Snapshot
from retinue.registry.catalog import Catalog
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import AgentNotFound, AmbiguousAgent, DefinitionError, SourceUnavailable, Untrusted
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

MakeEntry = Callable[..., Entry]
MakeSnapshot = Callable[..., Snapshot]


@pytest.mark.spec("REG-01")
def test_sources_are_asked_in_the_order_of_the_specification(snapshot: MakeSnapshot) -> None:
    kinds = ["a2a", "builtin", "code", "database", "package", "config", "user", "project"]
    snapshots = [snapshot(kind, kind, "x") for kind in kinds]
    snapshots.insert(3, snapshot("git:deep", "git", "x", namespace="a/b"))
    snapshots.insert(3, snapshot("git:short", "git", "x", namespace="a"))
    snapshots.insert(3, snapshot("git:root", "git", "x"))

    catalog = Catalog.build(snapshots)

    assert [s.name for s in catalog.snapshots] == [
        "project", "user", "config", "git:root", "git:short", "git:deep",
        "package", "database", "code", "builtin", "a2a",
    ]  # fmt: skip
    resolved = catalog.resolve("x")
    assert resolved.origin == "project"
    assert [f.snapshot.name for f in resolved.shadows] == [
        "user", "config", "git:root", "package", "database", "code", "builtin", "a2a",
    ]  # fmt: skip


@pytest.mark.spec("REG-04", "REG-08")
def test_a_root_repository_is_asked_before_a_namespaced_one(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build(
        [
            snapshot("git:experimental", "git", "nlp/sentiment", "vision", namespace="experimental"),
            snapshot("git:main-agents", "git", "sales/assistant", "experimental/nlp/sentiment"),
        ]
    )

    root = catalog.resolve("experimental/nlp/sentiment")
    namespaced = catalog.resolve("experimental/vision")

    assert (root.source, root.repository, root.commit, root.is_namespaced, root.priority) == (
        "git", "main-agents", "c0ffee", False, "root",
    )  # fmt: skip
    assert (namespaced.source, namespaced.repository, namespaced.is_namespaced, namespaced.priority) == (
        "git", "experimental", True, "namespaced",
    )  # fmt: skip
    assert [p.outcome for p in catalog.resolve("sales/assistant").tried] == ["found", "not asked"]


@pytest.mark.spec("REG-04")
def test_a_namespaced_agents_definition_bears_the_id_that_it_is_addressed_by(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build([snapshot("git:exp", "git", "x", namespace="exp"), snapshot("builtin", "builtin", "x")])

    assert [d.id for d in catalog.visible()] == ["exp/x", "x"]
    assert [catalog.resolve(d.id).definition.id for d in catalog.visible()] == ["exp/x", "x"]


@pytest.mark.spec("REG-04")
def test_the_shortest_namespace_that_has_the_agent_wins(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build(
        [
            snapshot("git:a/b", "git", "c/d", "only", namespace="a/b"),
            snapshot("git:a", "git", "b/c/d", namespace="a"),
        ]
    )

    assert catalog.resolve("a/b/c/d").repository == "a"
    assert catalog.resolve("a/b/only").repository == "a/b"


@pytest.mark.spec("REG-04")
def test_a_namespaced_agent_is_not_found_without_its_prefix(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build([snapshot("git:experimental", "git", "nlp/sentiment", namespace="experimental")])

    with pytest.raises(AgentNotFound) as error:
        catalog.resolve("nlp/sentiment")

    assert error.value.near == ("experimental/nlp/sentiment",)


@pytest.mark.spec("DEF-04")
def test_an_exact_id_of_any_source_comes_before_a_folded_id_and_that_before_a_name(
    snapshot: MakeSnapshot, entry: MakeEntry
) -> None:
    catalog = Catalog.build(
        [
            snapshot("project", "project", "Code_Reviewer", entry("other", name="code-reviewer")),
            snapshot("builtin", "builtin", "code-reviewer"),
        ]
    )

    assert catalog.resolve("code-reviewer").origin == "builtin"
    assert catalog.resolve("CODE_reviewer").address == "Code_Reviewer"
    assert Catalog.build(catalog.snapshots[1:]).resolve("code_reviewer").address == "code-reviewer"


@pytest.mark.spec("DEF-04")
def test_name_and_slug_are_aliases(snapshot: MakeSnapshot, entry: MakeEntry) -> None:
    catalog = Catalog.build([snapshot("user", "user", entry("sales/assistant", name="SalesAssistant", slug="sales"))])

    assert catalog.resolve("SalesAssistant").address == "sales/assistant"
    assert catalog.resolve("salesassistant").address == "sales/assistant"
    assert catalog.resolve("sales").address == "sales/assistant"


@pytest.mark.spec("DEF-04")
def test_a_name_that_fits_two_agents_of_one_source_is_an_error_that_names_both(
    snapshot: MakeSnapshot, entry: MakeEntry
) -> None:
    catalog = Catalog.build([snapshot("user", "user", entry("a", name="Twin"), entry("b", name="Twin"))])

    with pytest.raises(AmbiguousAgent, match=r"a \(a\.md\) and b \(b\.md\)"):
        catalog.resolve("Twin")

    assert catalog.resolve("a").address == "a"


@pytest.mark.spec("DEF-04")
def test_two_ids_that_fold_alike_are_ambiguous_only_when_neither_is_written_exactly(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build([snapshot("user", "user", "a_b", "a-b")])

    assert catalog.resolve("a_b").address == "a_b"
    with pytest.raises(AmbiguousAgent):
        catalog.resolve("A_B")


@pytest.mark.spec("DEF-04")
@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("builtin:coder", "builtin"),
        ("git:main-agents:coder", "git:main-agents"),
        ("project:coder", "project"),
        ("coder", "project"),
    ],
)
def test_a_source_can_be_addressed_outright(name: str, origin: str, snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build(
        [
            snapshot("project", "project", "coder"),
            snapshot("git:main-agents", "git", "coder"),
            snapshot("builtin", "builtin", "coder"),
        ]
    )

    assert catalog.resolve(name).origin == origin


@pytest.mark.spec("DEF-04")
def test_a_colon_that_names_no_source_is_part_of_the_name(snapshot: MakeSnapshot, entry: MakeEntry) -> None:
    catalog = Catalog.build([snapshot("user", "user", entry("reviewer", name="plugin:reviewer"))])

    assert catalog.resolve("plugin:reviewer").address == "reviewer"


@pytest.mark.spec("REG-01")
def test_a_broken_first_match_is_an_error_that_names_it_and_what_it_hides(
    snapshot: MakeSnapshot, entry: MakeEntry
) -> None:
    catalog = Catalog.build(
        [snapshot("project", "project", entry("coder", broken=True)), snapshot("builtin", "builtin", "coder")]
    )

    with pytest.raises(DefinitionError, match=r"coder of project .* hides coder of builtin .*coder.md:3:1") as error:
        catalog.resolve("coder")

    assert [p.code for p in error.value.problems] == ["bad-value"]
    assert catalog.resolve("builtin:coder").origin == "builtin"


@pytest.mark.spec("REG-01", "REG-02")
def test_an_untrusted_first_match_is_an_error_that_says_how_to_trust_it(
    snapshot: MakeSnapshot, entry: MakeEntry
) -> None:
    catalog = Catalog.build(
        [snapshot("project", "project", entry("coder", trusted=False)), snapshot("builtin", "builtin", "coder")]
    )

    with pytest.raises(Untrusted, match="not trusted yet; it hides coder of builtin") as error:
        catalog.resolve("coder")

    assert error.value.hint == "read it, then: retinue agents trust coder"


@pytest.mark.spec("REG-01")
def test_a_failed_source_that_may_own_the_name_is_unavailable_and_not_not_found(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build(
        [snapshot("git:main", "git", error="no route to host"), snapshot("builtin", "builtin", "coder")]
    )

    with pytest.raises(SourceUnavailable, match=r"'sales/x' may be in git:main.*no route"):
        catalog.resolve("sales/x")
    assert catalog.resolve("coder").origin == "builtin"
    assert [p.outcome for p in catalog.resolve("coder").tried] == ["unavailable", "found"]


@pytest.mark.spec("REG-01")
def test_a_failed_namespaced_repository_may_own_only_names_below_its_prefix(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build([snapshot("git:exp", "git", namespace="exp", error="gone")])

    with pytest.raises(SourceUnavailable):
        catalog.resolve("exp/x")
    with pytest.raises(AgentNotFound):
        catalog.resolve("x")


@pytest.mark.spec("REG-06")
def test_a_stale_snapshot_still_answers(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build([snapshot("git:main", "git", "x", error="offline", stale=True)])

    assert catalog.resolve("x").address == "x"
    with pytest.raises(AgentNotFound):
        catalog.resolve("y")


@pytest.mark.spec("REG-08")
def test_not_found_says_what_was_looked_for_where_and_near_names(snapshot: MakeSnapshot) -> None:
    catalog = Catalog.build(
        [snapshot("user", "user", "sales/assistant"), snapshot("builtin", "builtin", "coder", "reviewer")]
    )

    with pytest.raises(AgentNotFound) as error:
        catalog.resolve("sales/assistent")

    assert error.value.message == (
        "there is no agent 'sales/assistent': looked for id, folded id and name in user, builtin"
    )
    assert error.value.hint == "did you mean sales/assistant?"
    assert error.value.tried == ("user: sales/assistent absent", "builtin: sales/assistent absent")


@pytest.mark.spec("DEF-05")
def test_a_file_without_frontmatter_is_an_error_when_asked_for_by_name(snapshot: MakeSnapshot) -> None:
    problem = Problem(code="no-frontmatter", severity="warning", message="has no frontmatter", file="agents/readme.md")
    catalog = Catalog.build([snapshot("project", "project", problems=(problem,))])

    with pytest.raises(DefinitionError, match="'readme' is not an agent: has no frontmatter"):
        catalog.resolve("readme")


@pytest.mark.spec("REG-01", "REG-10")
def test_a_remote_agent_answers_only_when_nothing_else_matched(snapshot: MakeSnapshot, entry: MakeEntry) -> None:
    catalog = Catalog.build(
        [
            snapshot("project", "project", entry("coder", kind="remote"), entry("legal", kind="remote")),
            snapshot("builtin", "builtin", "Coder"),
        ]
    )

    assert catalog.resolve("coder").origin == "builtin"
    legal = catalog.resolve("legal")
    assert (legal.source, legal.priority, legal.origin) == ("a2a", "external", "project")


@pytest.mark.spec("REG-09")
def test_agents_are_listed_by_category_and_visibility_in_display_order(
    snapshot: MakeSnapshot, entry: MakeEntry
) -> None:
    catalog = Catalog.build(
        [
            snapshot(
                "user",
                "user",
                entry("late", order=2, category="primary"),
                entry("early", order=1, category="subagent"),
                entry("secret", hidden=True, category="subagent"),
                entry("inner", category="hidden"),
                entry("any"),
                entry("bad", broken=True),
                entry("strange", trusted=False),
            ),
            snapshot("builtin", "builtin", entry("late", order=0)),
        ]
    )

    def ids(definitions: tuple[AgentDefinition, ...]) -> list[str]:
        return [d.id for d in definitions]

    assert ids(catalog.visible()) == ["any", "early", "late"]
    assert ids(catalog.by_category("subagent")) == ["early", "secret"]
    assert ids(catalog.subagent_types()) == ["any", "early"]
    assert [(w.found.address, w.found.status, w.shadowed_by) for w in catalog.entries()][-4:] == [
        ("any", "ok", None),
        ("bad", "error", None),
        ("strange", "untrusted", None),
        ("late", "ok", "user"),
    ]


class _Unread(Mapping[AgentId, Entry]):
    """Entries that must not be decoded by building or by an exact look-up of another id."""

    def __init__(self, entries: Mapping[AgentId, Entry]) -> None:
        self._entries = entries
        self.read: list[str] = []

    def __getitem__(self, key: AgentId) -> Entry:
        self.read.append(key)
        return self._entries[key]

    def __iter__(self) -> Iterator[AgentId]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def test_building_and_exact_look_ups_touch_only_the_entry_asked_for(entry: MakeEntry) -> None:
    entries = _Unread({AgentId(f"a{i}"): entry(f"a{i}") for i in range(100)})

    Catalog.build([Snapshot(name="git:x", kind="git", entries=entries)]).resolve("a7")

    assert entries.read == ["a7"]


def test_ten_thousand_agents_build_in_tens_of_milliseconds_and_resolve_in_microseconds(
    snapshot: MakeSnapshot, entry: MakeEntry
) -> None:
    """Bounds are ten times what is measured, for slow machines; bench/ holds the figures."""
    big = snapshot("git:big", "git", *(entry(f"team{i % 100}/agent{i}") for i in range(10_000)))
    small = [snapshot(kind, kind, "x") for kind in ("project", "user", "builtin")]
    start = time.process_time()
    catalog = Catalog.build([big, *small])
    built = time.process_time() - start
    catalog.resolve("team7/agent7")
    start = time.process_time()
    for i in range(1_000):
        catalog.resolve(f"team{i % 100}/agent{i}")
    each = (time.process_time() - start) / 1_000

    assert built < 0.5
    assert each < 200e-6
