# SPDX-License-Identifier: Apache-2.0
"""Credentials that are recognized by their form alone, in any place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.builtin import DEFAULT_RULES
from nri_scope.share.redaction.credential_formats import FormatRule, RuleSet, public_rules
from tests.amount import amount

KEY = bytes(range(32))
# No other rule is enabled.
FORMATS = Rules(enabled=frozenset({"credential-formats"}))
_HEX = "0123456789abcdef"
_SMALL = "abcdefghijklmnopqrstuvwxyz234567"
_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_chance = Random(1)


def _of(letters: str, length: int) -> str:
    return "".join(_chance.choice(letters) for _ in range(length))


# Generated, so that secret scanners do not report this file.
TOKENS = {
    "gitlab personal": "glpat-" + _of(_ALNUM, 20),
    "gitlab personal, routable": "glpat-" + _of(_ALNUM, 27) + ".01." + _of(_SMALL[24:], 9),
    "gitlab deploy": "gldt-" + _of(_ALNUM, 20),
    "gitlab runner": "glrt-" + _of(_ALNUM, 20),
    "gitlab trigger": "glptt-" + _of(_HEX, 40),
    "gitlab job": "glcbt-64_" + _of(_ALNUM, 20),
    "gitlab runner registration": "glrtr-" + _of(_ALNUM, 20),
    "digitalocean personal": "dop_v1_" + _of(_HEX, 64),
    "digitalocean oauth": "doo_v1_" + _of(_HEX, 64),
    "digitalocean refresh": "dor_v1_" + _of(_HEX, 64),
    "mailgun key": "key-" + _of(_HEX, 32),
    "mailgun sending key": f"{_of(_HEX, 32)}-{_of(_HEX, 8)}-{_of(_HEX, 8)}",
    "databricks": "dapi" + _of(_HEX, 32) + "-2",
    "mailchimp": _of(_HEX, 32) + "-us14",
    "airtable": "pat" + _of(_ALNUM, 14) + "." + _of(_HEX, 64),
    "paseto": "v4.local." + _of(_ALNUM, 60),
    "tailscale": "tskey-auth-" + _of(_ALNUM, 16) + "-" + _of(_ALNUM, 32),
    "sonarqube": "squ_" + _of(_HEX, 40),
    "shopify access": "shpat_" + _of(_HEX, 32),
    "shopify secret": "shpss_" + _of(_HEX, 32),
    "shopify customer": "shptka_" + _of(_HEX, 32),
    "new relic user key": "NRAK-" + _of(_ALNUM[26:], 27),
    "new relic insert key": "NRII-" + _of(_ALNUM, 32),
    "new relic licence": "eu01xx" + _of(_HEX, 30) + "NRAL",
    "age": "AGE-SECRET-KEY-1" + _of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "age, post-quantum": "AGE-SECRET-KEY-PQ-1" + _of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "mysql hash": "*" + _of(_HEX, 40).upper(),
    "mysql 8 hash": "$A$005$" + _of(_ALNUM, 20) + _of(_ALNUM, 43),
    "postgresql scram": (
        f"SCRAM-SHA-256$4096:{_of(_ALNUM, 22)}==${_of(_ALNUM, 43)}=:{_of(_ALNUM, 43)}="
    ),
    "postgresql md5": "md5" + _of(_HEX, 32),
    "bcrypt": "$2b$12$" + _of(_ALNUM, 53),
    "sha512-crypt": "$6$rounds=5000$" + _of(_ALNUM, 16) + "$" + _of(_ALNUM, 86),
    "apr1": "$apr1$" + _of(_ALNUM, 8) + "$" + _of(_ALNUM, 22),
    "django": "pbkdf2_sha256$600000$" + _of(_ALNUM, 22) + "$" + _of(_ALNUM, 43) + "=",
    "ldap": "{SSHA}" + _of(_ALNUM, 32),
    "aws": "AKIA" + _of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    "github": "ghp_" + _of(_ALNUM, 36),
    "github, longer than it was": "ghp_" + _of(_ALNUM, 60),
    "slack": "xoxb-" + _of("123456789", 12) + "-" + _of("123456789", 12) + "-" + _of(_ALNUM, 24),
    "docker": "dckr_pat_" + _of(_ALNUM, 27),
    "docker swarm": "SWMTKN-1-" + _of(_SMALL, 50) + "-" + _of(_SMALL, 25),
    "google oauth": "GOCSPX-" + _of(_ALNUM, 28),
    "kubernetes bootstrap": "a1b2c3." + _of(_SMALL, 15) + "7",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + _of(_ALNUM, 30) + "." + _of(_ALNUM, 43),
    "jwe": "eyJhbGciOiJkaXIifQ.." + ".".join(_of(_ALNUM, n) for n in (16, 60, 22)),
    "openvpn": (
        "-----BEGIN OpenVPN Static key V1-----\n"
        + _of(_HEX, 32)
        + "\n-----END OpenVPN Static key V1-----"
    ),
}

Wrap = Callable[[str], str]
PLACES: dict[str, Wrap] = {
    "alone": lambda token: token,
    "in words": lambda token: f"uses {token} to log in",
    "in quotes": lambda token: f"it's '{token}'",
    "as an option": lambda token: f"--anything={token}",
    "in a URL's query": lambda token: f"https://api.example.com/x?a={token}&b=1",
    "in a URL's path": lambda token: f"https://api.example.com/{token}/x",
    "in JSON": lambda token: json.dumps({"note": token, "other": [f"{token},"]}),
    "in JSON in JSON": lambda token: json.dumps(json.dumps({"note": token})),
    "in YAML": lambda token: f"anything: {token}\nother: 1\n",
    "in XML": lambda token: f"<a>{token}</a>",
    "in brackets": lambda token: f"f({token})[{token}]",
    "before punctuation": lambda token: f"It was {token}. Or {token}, {token}; {token}: {token}!",
    "twice": lambda token: f"{token} {token}",
    "after a colon": lambda token: f"error:{token}:7",
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_credential_is_replaced_in_any_place(name: str) -> None:
    token = TOKENS[name]
    body = max(token.strip("-").split("\n"), key=len)
    for place, write in PLACES.items():
        shown = Redactor(FORMATS, KEY).text(write(token), "note.text")

        assert body[-16:] not in shown and body[:20] not in shown, place
        # The end of the token is replaced, too.
        for end in (body[-6:], json.dumps(body)[1:-1][-6:]):
            assert end not in shown.replace("redacted-", ""), place


STAYING = {
    "container id": "c9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236d",
    "uid": "3f0c5c1e-7d3b-4a55-9c2e-0a1b2c3d4e5f",
    "digest": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit": "d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    "pci": "0000:3b:00.1",
    "cpus": "0-3,8-11,64",
    "tag": "quay.io/prometheus/node-exporter:v1.8.2-distroless",
    "image with a digest": (
        "sentry@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    ),
    "cgroup": (
        "/kubepods.slice/kubepods-burstable.slice/cri-containerd-"
        "c9f0f895fb98ab9159f51fd0297e236dc9f0f895fb98ab9159f51fd0297e236d.scope"
    ),
    "pod": "confluent-kafka-7d9c6b5f48-x2v9q",
    "path": "/var/lib/kubelet/pods/3f0c5c1e-7d3b-4a55-9c2e-0a1b2c3d4e5f/volumes/x",
    "words after a name": "jira: internationalisation",
    "java": "-Xmx512m -XX:+UseG1GC -Djava.security.egd=file:/dev/./urandom",
    "rust": "RUST_LOG=info,hyper=warn,my_crate::module=debug",
    "cuda": "cuda>=12.4 brand=tesla,driver>=470,driver<471",
    "resource": "nvidia.com/gpu=GPU-3f0c5c1e-7d3b-4a55-9c2e-0a1b2c3d4e5f",
    "checksum": "md5:d41d8cd98f00b204e9800998ecf8427e",
    "glob": "*.conf and *ABCDEF01",
    "etcd": "etcd-cluster-1=https://127.0.0.1:2380",
    "layer": "overlay2/l/6Y5IM2XC7TSNIJZZFLJCS6I4I4",
}


@pytest.mark.parametrize("name", STAYING)
def test_texts_similar_to_credentials_are_unchanged(name: str) -> None:
    for text in (STAYING[name], f"see {STAYING[name]} now", json.dumps({"x": STAYING[name]})):
        assert Redactor(FORMATS, KEY).text(text, "note.text") == text


def test_a_value_after_the_name_of_a_service_is_replaced() -> None:
    value = _of(_HEX, 40)
    redactor = Redactor(FORMATS, KEY)

    assert redactor.text(f"datadog-thing={value}; x=1").startswith("datadog-thing=redacted-")
    assert redactor.text(f"datadog-thing={value}; x=1").endswith("; x=1")
    # The value is now known, and replaced in other texts.
    assert redactor.text(f"commit={value}").startswith("commit=redacted-")
    assert Redactor(FORMATS, KEY).text(f"commit={value}") == f"commit={value}"


def test_ids_of_pods_are_no_credentials_of_a_service() -> None:
    pod_id, other_id = _of(_HEX, 64), _of(_HEX[::-1], 64)
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id=pod_id, name="web"),
        container=api.Container(
            id="c1", pod_sandbox_id=pod_id, args=[f"confluent: {pod_id}", f"confluent: {other_id}"]
        ),
    )
    content = request.SerializeToString()
    redactor = Redactor(FORMATS, KEY)
    redactor.learn("CreateContainer", content, b"")
    shown = api.CreateContainerRequest.FromString(redactor.request("CreateContainer", content))

    assert shown.container.args[0] == f"confluent: {pod_id}"
    assert shown.container.args[1].startswith("confluent: redacted-")


@settings(max_examples=amount(200, 50), deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([*TOKENS.values(), *STAYING.values(), "datadog=", "jira: ", "redacted-"])
        | st.text(max_size=8),
        max_size=6,
    )
)
def test_redacting_twice_changes_nothing(pieces: list[str]) -> None:
    for rules in (FORMATS, Rules(enabled=DEFAULT_RULES)):
        once = Redactor(rules, KEY).text(" ".join(pieces))

        assert Redactor(rules, bytes(32)).text(once) == once


def test_every_public_rule_is_valid() -> None:
    rules = public_rules()

    assert len(rules) > 150
    assert all(rule.keywords and rule.pattern is not None for rule in rules)
    assert len({rule.name for rule in rules}) == len(rules)


def test_every_rule_with_a_matching_keyword_is_applied() -> None:
    # All rules have the same name and a keyword of the text.
    rules = RuleSet(
        FormatRule("one", expression, ("ab",)) for expression in ("ab[0-9]", "ab[0-9]{3}", "ab!")
    )

    assert [(one.start, one.end) for one in rules.find("ab123 AB ab!")] == [(0, 5), (9, 12)]


def test_the_command_line_does_not_import_the_rules() -> None:
    code = (
        "import sys; from nri_scope.cli.main import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "assert 'nri_scope.share.redaction.credential_formats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
