"""URLs and addresses."""

import pytest

from retinue.policy.network import judge_addresses, judge_redirect, judge_url, same_origin
from retinue.schema.permission import Verdict


@pytest.mark.spec("PERM-04")
@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://example.com/a?b#c", "allow"),
        ("http://example.com", "allow"),
        ("HTTPS://EXAMPLE.com:443/", "allow"),
        ("https://bücher.example/", "allow"),
        ("https://8.8.8.8/", "allow"),
        ("https://[2606:4700::1111]/", "allow"),
        ("https://example.com:8443/", "ask"),
        ("http://169.254.169.254/latest", "deny"),
        ("http://metadata.google.internal/", "deny"),
        ("http://[fd00:ec2::254]/", "deny"),
        ("http://100.100.100.200/", "deny"),
        ("http://127.0.0.1/", "deny"),
        ("http://127.9.9.9:8080/", "deny"),
        ("http://localhost/", "deny"),
        ("http://a.localhost./", "deny"),
        ("http://0.0.0.0/", "deny"),
        ("http://[::]/", "deny"),
        ("http://[::1]/", "deny"),
        ("http://10.1.2.3/", "deny"),
        ("http://172.31.0.1/", "deny"),
        ("http://192.168.0.1/", "deny"),
        ("http://100.64.0.1/", "deny"),
        ("http://[fc00::1]/", "deny"),
        ("http://[fe80::1]/", "deny"),
        ("http://2130706433/", "deny"),
        ("http://0x7f.1/", "deny"),
        ("http://0177.0.0.1/", "deny"),
        ("http://127.1/", "deny"),
        ("http://１２７.０.０.１/", "deny"),
        ("http://127。0。0。1/", "deny"),
        ("http://a.1/", "deny"),
        ("http://[::ffff:127.0.0.1]/", "deny"),
        ("http://[64:ff9b::7f00:1]/", "deny"),
        ("http://[64:ff9b::808:808]/", "allow"),
        ("http://[2002:7f00:1::]/", "deny"),
        ("http://[2002:808:808::]/", "allow"),
        ("http://good@evil/", "deny"),
        ("http://a:b@evil/", "deny"),
        ("http://evil\\@good/", "deny"),
        ("http://ev\0il/", "deny"),
        ("http://e%76il/", "deny"),
        ("http://ex ample/", "deny"),
        ("http://[::1%25eth0]/", "deny"),
        ("http://a:99999/", "deny"),
        ("http://a:/", "deny"),
        ("http:///x", "deny"),
        ("//example.com/", "deny"),
        ("file:///etc/passwd", "deny"),
        ("ftp://example.com/", "deny"),
        ("gopher://example.com/", "deny"),
        ("data:text/plain,x", "deny"),
        ("unix:///run/x.sock", "deny"),
        ("", "deny"),
    ],
)
def test_a_url_gets_its_verdict(url: str, wanted: Verdict) -> None:
    assert judge_url(url).verdict == wanted


@pytest.mark.spec("PERM-04")
def test_the_operator_allows_one_host_and_port_and_never_metadata() -> None:
    allow = {"127.0.0.1:8080", "localhost:8080", "10.0.0.5:443", "example.com:8443", "169.254.169.254:80", "[::1]:9000"}

    def verdict(url: str) -> Verdict:
        return judge_url(url, allow=allow).verdict

    assert verdict("http://127.0.0.1:8080/") == "allow"
    assert verdict("http://localhost:8080/") == "allow"
    assert verdict("http://[::1]:9000/") == "allow"
    assert verdict("https://10.0.0.5/") == "allow"
    assert verdict("https://example.com:8443/") == "allow"
    assert verdict("http://127.0.0.1:8081/") == "deny"
    assert verdict("http://169.254.169.254/") == "deny"


@pytest.mark.spec("PERM-04")
@pytest.mark.parametrize(
    ("addresses", "wanted"),
    [
        (["93.184.215.14"], "allow"),
        (["93.184.215.14", "10.0.0.1"], "deny"),
        (["2606:4700::1111", "::1"], "deny"),
        (["::ffff:10.0.0.1"], "deny"),
        (["2001:0:4136:e378:8000:63bf:3fff:fdd2"], "deny"),
        (["168.63.129.16"], "deny"),
        (["224.0.0.1"], "deny"),
        (["fe80::1%eth0"], "deny"),
        ([], "deny"),
        (["nonsense"], "deny"),
    ],
)
def test_every_answer_of_a_lookup_is_judged(addresses: list[str], wanted: Verdict) -> None:
    assert judge_addresses("example.com", 443, addresses).verdict == wanted


@pytest.mark.spec("PERM-04")
def test_an_allowed_name_may_have_private_addresses_on_that_port_only() -> None:
    allow = {"intranet.example:443"}

    assert judge_addresses("intranet.example", 443, ["10.0.0.1"], allow=allow).verdict == "allow"
    assert judge_addresses("intranet.example", 80, ["10.0.0.1"], allow=allow).verdict == "deny"
    assert judge_addresses("intranet.example", 443, ["169.254.169.254"], allow=allow).verdict == "deny"


@pytest.mark.spec("PERM-04")
def test_a_redirect_is_judged_like_a_request_and_never_goes_back_to_http() -> None:
    assert judge_redirect("https://a.example/", "https://b.example/").verdict == "allow"
    assert judge_redirect("http://a.example/", "https://a.example/").verdict == "allow"
    assert judge_redirect("https://a.example/", "http://a.example/").verdict == "deny"
    assert judge_redirect("https://a.example/", "https://127.0.0.1/").verdict == "deny"
    assert judge_redirect("https://a.example/", "file:///etc/passwd").verdict == "deny"
    assert same_origin("https://a.example/x", "https://A.example:443/y")
    assert not same_origin("https://a.example/", "https://b.example/")
    assert not same_origin("nonsense", "nonsense")
