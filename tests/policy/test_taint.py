"""The taint gate."""

import pytest

from retinue.policy.taint import TaintPolicy, gate, labels, policy_of
from retinue.schema.errors import UsageError

BOTH = {"private", "untrusted"}


@pytest.mark.spec("PERM-08")
@pytest.mark.parametrize("taints", [set[str](), {"private"}, {"untrusted"}])
def test_one_label_alone_may_send(taints: set[str]) -> None:
    assert gate("webfetch", taints, TaintPolicy()) is None


@pytest.mark.spec("PERM-08")
def test_private_and_untrusted_together_may_not_send_without_a_person() -> None:
    asked = gate("webfetch", BOTH, TaintPolicy())

    assert asked is not None
    assert (asked.verdict, asked.reason) == (
        "ask",
        "this thread has read private data and untrusted content, and webfetch sends out",
    )
    assert gate("mcp_mail_send", BOTH, TaintPolicy()) is not None
    assert gate("read", BOTH, TaintPolicy()) is None
    assert gate("edit", BOTH, TaintPolicy()) is None


@pytest.mark.spec("PERM-08")
def test_bash_sends_only_where_it_has_the_network() -> None:
    assert gate("bash", BOTH, TaintPolicy()) is None
    assert gate("bash", BOTH, TaintPolicy(), network=True) is not None
    assert labels("bash", network=True) == {"private", "untrusted", "sends"}


@pytest.mark.spec("PERM-08")
def test_an_agent_has_its_own_policy() -> None:
    strict = policy_of({"mode": "deny", "labels": {"mcp_docs_*": ["untrusted"], "transfer": ["sends"]}})

    assert gate("mcp_docs_find", BOTH, strict) is None
    transfer = gate("transfer", BOTH, strict)
    assert transfer is not None and transfer.verdict == "deny"
    assert gate("transfer", BOTH, policy_of({"mode": "off"})) is None
    assert policy_of({}) == TaintPolicy()


@pytest.mark.spec("PERM-08")
def test_a_policy_that_makes_no_sense_is_an_error_that_says_what_is_wanted() -> None:
    with pytest.raises(UsageError, match="mode"):
        policy_of({"mode": "maybe"})
