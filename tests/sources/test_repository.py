"""Repositories as they are configured."""

import pytest

from retinue.schema.errors import GitError
from retinue.schema.problem import Problem
from retinue.sources.repository import (
    Remote,
    RepositoryConfig,
    parse_repository,
    remote,
    secret,
)

URL = "https://github.com/company/main-agents.git"


def parsed(**fields: object) -> RepositoryConfig:
    config, problems = parse_repository(fields, origin="retinue.json")
    assert config is not None, problems
    return config


def problems_of(**fields: object) -> tuple[Problem, ...]:
    config, problems = parse_repository({"name": "agents", "gitUrl": URL} | fields, origin="retinue.json")
    assert config is None
    return problems


@pytest.mark.spec("REG-03")
def test_the_repositories_printed_in_s0_load() -> None:
    main, experimental, partner = (
        {
            "name": "main-agents",
            "gitUrl": URL,
            "branch": "production",
            "isRoot": True,
            "syncInterval": "5m",
            "authType": "ssh-key",
            "sshKeyPath": "/secrets/git-deploy-key",
            "webhookSecret": "env(GIT_WEBHOOK_SECRET)",
            "isActive": True,
        },
        {
            "name": "experimental",
            "gitUrl": "https://github.com/company/experimental-agents.git",
            "branch": "main",
            "isRoot": False,
            "syncInterval": "15m",
            "authType": "token",
            "authToken": "env(GITHUB_TOKEN)",
            "isActive": True,
        },
        {
            "name": "partner-shared",
            "gitUrl": "https://github.com/partner/shared-agents.git",
            "branch": "stable",
            "isRoot": False,
            "syncInterval": "1h",
            "authType": "ssh-key",
            "sshKeyPath": "/secrets/partner-git-key",
            "isActive": True,
            "readOnly": True,
        },
    )
    assert parsed(**main) == RepositoryConfig(
        name="main-agents",
        git_url=URL,
        branch="production",
        is_root=True,
        sync_interval=300.0,
        auth_type="ssh-key",
        ssh_key_path="/secrets/git-deploy-key",
        webhook_secret="env(GIT_WEBHOOK_SECRET)",
    )
    assert parsed(**experimental) == RepositoryConfig(
        name="experimental",
        git_url="https://github.com/company/experimental-agents.git",
        sync_interval=900.0,
        auth_type="token",
        auth_token="env(GITHUB_TOKEN)",
    )
    assert parsed(**partner) == RepositoryConfig(
        name="partner-shared",
        git_url="https://github.com/partner/shared-agents.git",
        branch="stable",
        sync_interval=3600.0,
        auth_type="ssh-key",
        ssh_key_path="/secrets/partner-git-key",
        read_only=True,
    )


@pytest.mark.spec("REG-03")
def test_snake_case_and_defaults() -> None:
    assert parsed(name="a/b-c", git_url=URL, is_root=True, sync_interval=90, auth_type="none") == RepositoryConfig(
        name="a/b-c", git_url=URL, branch="main", is_root=True, sync_interval=90.0, is_active=True, read_only=False
    )


def test_how_to_authenticate_is_inferred_from_what_is_given() -> None:
    assert parsed(name="a", gitUrl="git@github.com:company/agents.git").auth_type == "ssh-key"
    assert parsed(name="a", gitUrl=URL, authToken="env(T)").auth_type == "token"
    assert parsed(name="a", gitUrl=URL, sshKeyPath="~/.ssh/deploy").auth_type == "ssh-key"
    assert parsed(name="a", gitUrl=URL).auth_type == "none"


@pytest.mark.spec("REG-03")
def test_every_error_is_told_at_once_and_no_secret_is_shown() -> None:
    found = problems_of(
        name="1st",
        gitUrl="https://bob:hunter2@github.com/x.git",
        brnach="main",
        branch="--upload-pack=x",
        isRoot="yes",
        syncInterval="soon",
        authType="password",
        authToken="ghp_literal",
        webhookSecret=12345,
        sshKeyPath="key",
    )
    assert [(p.code, p.file) for p in found] == [
        ("unknown-key", "retinue.json"),
        ("bad-value", "retinue.json"),
        ("bad-value", "retinue.json"),
        ("bad-value", "retinue.json"),
        ("bad-value", "retinue.json"),
        ("bad-value", "retinue.json"),
        ("bad-value", "retinue.json"),
        ("literal-secret", "retinue.json"),
        ("literal-secret", "retinue.json"),
        ("bad-value", "retinue.json"),
    ]
    told = "\n".join(map(str, found))
    assert "did you mean 'branch'?" in told
    assert "use authToken: env(NAME)" in told
    assert not [secret for secret in ("hunter2", "ghp_literal", "12345", "bob") if secret in told]


def test_missing_and_doubled_fields_are_errors() -> None:
    _, found = parse_repository({}, origin="x")
    assert [p.message for p in found] == [
        "repository: a repository needs 'name'",
        "repository: a repository needs 'gitUrl'",
    ]
    assert [p.code for p in problems_of(git_url=URL)] == ["duplicate-key"]
    assert [p.code for p in problems_of(name=None)] == ["missing-key"]


@pytest.mark.parametrize(
    "fields",
    [
        {"authType": "token"},
        {"authType": "token", "authToken": "env(T)", "gitUrl": "git@github.com:x/y.git"},
        {"authType": "none", "gitUrl": "git@github.com:x/y.git"},
        {"authType": "ssh-key", "gitUrl": "/srv/agents.git"},
    ],
)
def test_an_authentication_that_does_not_fit_the_address_is_an_error(fields: dict[str, object]) -> None:
    assert {p.severity for p in problems_of(**fields)} == {"error"}


def test_a_secret_that_is_not_used_is_warned_of() -> None:
    config, found = parse_repository(
        {"name": "a", "gitUrl": URL, "authType": "none", "authToken": "env(T)", "sshKeyPath": "/k"}, origin="x"
    )
    assert config is not None
    assert [(p.code, p.severity) for p in found] == [("unused-key", "warning")] * 2


@pytest.mark.spec("REG-04")
@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("main-agents", True),
        ("a/b/c_d", True),
        ("a//b", False),
        ("a/", False),
        ("-a", False),
        ("a b", False),
        ("ä", False),
        ("a\n", False),
        ("../a", False),
        ("", False),
    ],
)
def test_names_are_segments(name: str, good: bool) -> None:
    config, _ = parse_repository({"name": name, "gitUrl": URL}, origin="x")
    assert (config is not None) == good


@pytest.mark.spec("REG-05")
@pytest.mark.parametrize(
    "url",
    [
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x",
        "ext::sh -c id",
        "fd::17",
        "http::https://x/y",
        "https://user:pass@host/x.git",
        "https://ghp_token@github.com/x.git",
        "ssh://-oProxyCommand=x/y",
        "ssh://host:22:33/x",
        "ssh://git@-host/x",
        "ssh://-x@host/x",
        "ssh://git:password@host/x",
        "git@-host:x",
        "git@host:-x",
        "-x@host:y",
        "https://host",
        "https:///x",
        "https://ho\nst/x",
        "https://host/x\x00y",
        "https://host/x\u202ey",
        "https://host/x?a=b",
        "https://host/--upload-pack=x",
        "https://ho st/x",
        "https://[::1/x",
        "git://host/x",
        "ftp://host/x",
        "http://example.com/x.git",
        "file://host/x",
        "agents",
        "./agents",
        "c:\\agents" + "\x01",
        "",
    ],
)
def test_addresses_that_could_run_programs_or_leak_are_refused(url: str) -> None:
    config, found = parse_repository({"name": "a", "gitUrl": url}, origin="x")
    assert config is None
    assert not [word for word in ("pass@", "password", "ghp_token") if word in str(found[0])]
    with pytest.raises(GitError):
        remote(RepositoryConfig(name="a", git_url=url), allow_local=True)


@pytest.mark.spec("REG-05")
@pytest.mark.parametrize(
    "branch",
    [
        "-x",
        "--upload-pack=x",
        "a b",
        "a..b",
        "a:b",
        "a~1",
        "a^",
        "a\nb",
        "a.lock",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "@{u}",
        "a*",
        "x\x7f",
        "",
        "a.",
    ],
)
def test_branch_names_that_git_could_misread_are_refused(branch: str) -> None:
    with pytest.raises(GitError):
        remote(RepositoryConfig(name="a", git_url=URL, branch=branch), allow_local=False)


@pytest.mark.parametrize("branch", ["main", "release/1.2", "feature/ä", "fix_#12", "a-b"])
def test_branch_names_that_people_use_are_fine(branch: str) -> None:
    assert remote(RepositoryConfig(name="a", git_url=URL, branch=branch), allow_local=False).url == URL


@pytest.mark.spec("REG-03")
def test_a_deploy_key_with_an_https_address_goes_to_the_same_host_and_path_over_ssh() -> None:
    config = RepositoryConfig(name="a", git_url=URL, auth_type="ssh-key")
    assert remote(config, allow_local=False) == Remote(
        url="git@github.com:company/main-agents.git", transport="ssh", host="github.com"
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("git@github.com:x/y.git", Remote(url="git@github.com:x/y.git", transport="ssh", host="github.com")),
        ("ssh://git@host:2222/x", Remote(url="ssh://git@host:2222/x", transport="ssh", host="host")),
        ("https://host:8443/x", Remote(url="https://host:8443/x", transport="https", host="host")),
        ("/srv/a b.git", Remote(url="/srv/a b.git", transport="file")),
        ("file:///srv/a.git", Remote(url="file:///srv/a.git", transport="file")),
        ("http://[::1]:80/x", Remote(url="http://[::1]:80/x", transport="http", host="::1")),
    ],
)
def test_addresses_that_people_use_are_fine(url: str, expected: Remote) -> None:
    assert remote(RepositoryConfig(name="a", git_url=url), allow_local=True) == expected


def test_secrets_are_read_from_the_variable_they_name() -> None:
    config = RepositoryConfig(name="a", git_url=URL, auth_token="env(TOKEN_1)")
    assert secret(config, "auth_token", {"TOKEN_1": "x"}) == "x"
    with pytest.raises(GitError, match="TOKEN_1 is not set"):
        secret(config, "auth_token", {})
    with pytest.raises(GitError, match="has no webhookSecret"):
        secret(config, "webhook_secret", {})
