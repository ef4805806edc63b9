"""The rows of the network table that are decisions; the others are about how the guarded client acts."""

from collections.abc import Callable

import pytest

from retinue.policy.network import judge_addresses, judge_redirect, judge_url, same_origin
from retinue.schema.permission import Decision


def urls(*written: str) -> list[Decision]:
    return [judge_url(url) for url in written]


DECIDED: dict[str, list[Decision]] = {
    "https to a public address": [
        judge_url("https://e.example/"),
        judge_addresses("e.example", 443, ["93.184.215.14"]),
    ],
    "http://169.254.169.254/ and other metadata addresses "
    "(fd00:ec2::254, 100.100.100.200, 192.0.0.192, 168.63.129.16)": [
        judge_url(f"http://{host}/", allow={f"{host}:80"})
        for host in ("169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16")
    ],
    "127.0.0.0/8, ::1, 0.0.0.0, ::": urls(
        "http://127.0.0.1/", "http://127.8.8.8/", "http://[::1]/", "http://0.0.0.0/", "http://[::]/"
    ),
    "10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7, fe80::/10": urls(
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://[fc00::1]/",
        "http://[fe80::1]/",
    ),
    "http://2130706433/, http://0x7f.1/, http://0177.0.0.1/, http://127.1/, full-width digits": urls(
        "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://１２７.０.０.１/"
    ),
    "http://[::ffff:127.0.0.1]/, NAT64 64:ff9b::/96, 6to4 2002::/16 of private addresses": urls(
        "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::1]/"
    ),
    "public host that redirects to a private address": [judge_redirect("https://e.example/", "https://10.0.0.1/")],
    "host with both public and private addresses": [judge_addresses("e.example", 443, ["93.184.215.14", "10.0.0.1"])],
    "host whose second look-up turns private": [judge_addresses("e.example", 443, ["192.168.0.1"])],
    "http://good@evil/, hosts with NUL or backslash": urls("http://good@evil/", "http://e\0vil/", "http://e\\vil/"),
    "file:, ftp:, gopher:, data:, unix:": urls(
        "file:///x", "ftp://e.example/", "gopher://e.example/", "data:,x", "unix:/x"
    ),
    "redirect to another origin": [judge_redirect("https://a.example/", "https://b.example/")],
    "https that redirects to http": [judge_redirect("https://a.example/", "http://a.example/")],
    "ports other than 80 and 443": urls("https://e.example:8443/", "http://e.example:22/"),
}
ELSEWHERE = {
    "endless or compressed-bomb body, very slow body",
    "HTTP_PROXY in the environment",
    "webhook or push URL",
}


@pytest.mark.spec("PERM-04")
def test_every_row_that_is_a_decision_gets_its_verdict(table: Callable[[str], list[tuple[str, str, str]]]) -> None:
    rows = {request: verdict for request, verdict, _ in table("network.tsv")}

    assert set(rows) == set(DECIDED) | ELSEWHERE
    for request, decisions in DECIDED.items():
        assert {d.verdict for d in decisions} == {rows[request]}, (request, decisions)


@pytest.mark.spec("PERM-04")
def test_credentials_stay_with_their_origin() -> None:
    assert not same_origin("https://a.example/", "https://b.example/")
    assert not same_origin("https://a.example/", "https://a.example:8443/")
