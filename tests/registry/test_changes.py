from collections.abc import Callable

import pytest

from retinue.ports.source import Entry, Snapshot
from retinue.registry.catalog import Catalog
from retinue.registry.changes import Summary, diff


@pytest.mark.spec("REG-11")
def test_a_summary_names_what_is_new_changed_and_gone(
    snapshot: Callable[..., Snapshot], entry: Callable[..., Entry]
) -> None:
    same = snapshot("builtin", "builtin", "coder")
    old = Catalog.build([snapshot("user", "user", "kept", "gone", entry("edited", prompt="one")), same])
    new = Catalog.build([snapshot("user", "user", "kept", "new", entry("edited", prompt="two")), same])

    summary = diff(old, new)

    assert summary == Summary(new=("new",), changed=("edited",), gone=("gone",))
    assert str(summary) == "1 new (new), 1 changed (edited), 1 gone (gone)"
    assert not diff(new, new)


@pytest.mark.spec("REG-11")
def test_an_address_that_another_source_takes_over_is_changed(snapshot: Callable[..., Snapshot]) -> None:
    builtin = snapshot("builtin", "builtin", "coder")
    old, new = Catalog.build([builtin]), Catalog.build([builtin, snapshot("user", "user", "coder")])

    assert diff(old, new) == Summary(changed=("coder",))
    assert diff(new, old) == Summary(changed=("coder",))


@pytest.mark.spec("REG-11")
def test_an_entry_that_is_shadowed_comes_and_goes_unnoticed(snapshot: Callable[..., Snapshot]) -> None:
    user = snapshot("user", "user", "coder")

    assert not diff(Catalog.build([user]), Catalog.build([user, snapshot("builtin", "builtin", "coder")]))


@pytest.mark.spec("REG-02")
def test_an_agent_that_becomes_trusted_is_changed(
    snapshot: Callable[..., Snapshot], entry: Callable[..., Entry]
) -> None:
    old = Catalog.build([snapshot("project", "project", entry("x", trusted=False))])
    new = Catalog.build([snapshot("project", "project", entry("x"))])

    assert diff(old, new) == Summary(changed=("x",))
