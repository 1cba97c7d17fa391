# SPDX-License-Identifier: Apache-2.0
"""Syntax that indicates a credential, and similar syntax that does not."""

from __future__ import annotations

import json

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.redaction import Redactor, Rules

KEY = bytes(range(32))
SECRET = "x1y2z3w4"


def given(container: api.Container) -> api.Container:
    request = api.CreateContainerRequest(container=container)
    shown = Redactor(Rules.DEFAULT, KEY).request("CreateContainer", request.SerializeToString())
    again = Redactor(Rules.DEFAULT, bytes(32)).request("CreateContainer", shown)
    assert again == shown
    return api.CreateContainerRequest.FromString(shown).container


def text(content: str) -> str:
    shown = Redactor(Rules.DEFAULT, KEY).text(content)
    assert Redactor(Rules.DEFAULT, bytes(32)).text(shown) == shown
    return shown


@pytest.mark.parametrize(
    "args",
    [
        ["app", "--password", f"-{SECRET}", "run"],
        ["sshpass", "-p", SECRET, "ssh", "db"],
        ["/usr/bin/sshpass", "-p", SECRET],
        ["curl", f"--user=root:{SECRET}", "http://db"],
        ["redis-cli", "-h", "db", "-a", SECRET, "ping"],
        ["redis-server", "--requirepass", SECRET],
        ["sh", "-c", f"sshpass -p {SECRET} ssh db"],
        ["sh", "-c", f"redis-cli -h db -a {SECRET} ping"],
    ],
)
def test_only_arguments_that_are_credentials_are_replaced(args: list[str]) -> None:
    shown = list(given(api.Container(args=args)).args)

    assert SECRET not in " ".join(shown)
    assert [word for word in args if SECRET not in word and "root" not in word] == [
        word for word in shown if "redacted-" not in word
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["app", "--password", "--verbose-2"],
        ["app", "--token", "-v", "run"],
        ["ssh", "-p", "2222", "db"],
        ["run", "--user=1000:1000"],
    ],
)
def test_options_similar_to_credentials_are_unchanged(args: list[str]) -> None:
    assert list(given(api.Container(args=args)).args) == args


@pytest.mark.parametrize("ending", ["", "@sha256:" + "ab" * 32])
def test_user_and_password_of_an_image_are_replaced(ending: str) -> None:
    image = api.Image(name=f"u:{SECRET}@quay.io/x:1{ending}")
    name = given(api.Container(image=image)).image.name

    assert SECRET not in name and name.endswith(f"@quay.io/x:1{ending}")


@pytest.mark.parametrize(
    "reference", ["quay.io/x:1@sha256:" + "ab" * 32, "localhost:5000/x@sha256:" + "ab" * 32]
)
def test_a_digest_is_no_host(reference: str) -> None:
    assert given(api.Container(image=api.Image(name=reference))).image.name == reference


@pytest.mark.parametrize(
    "content",
    [
        {"password": {"value": SECRET}},
        {"key": "password", "value": SECRET, "hidden": True},
        {"name": "first", "key": "password", "value": SECRET},
        {"token": {"name": "first", "value": SECRET}},
    ],
)
def test_json_values_named_by_another_member_are_replaced(content: object) -> None:
    shown = text(json.dumps(content))

    assert SECRET not in shown
    assert json.dumps(content, separators=(",", ":")).replace(SECRET, "") == (
        shown[: shown.index("redacted-")] + shown[shown.index("redacted-") + 21 :]
    )


@pytest.mark.parametrize(
    "content",
    [
        "env:\n- name: DB_PASSWORD\n  value: {}\n- name: DEBUG\n  value: on\n",
        '- key: "client-secret"\n  value: "{}"\n',
        "db:\n  password:\n    {}\n  port: 80\n",
        'password:\n  "{}"\nport: 80',
        "port 6379\nrequirepass {}\nsave 60 1\n",
    ],
)
def test_values_named_in_the_line_above_are_replaced(content: str) -> None:
    before, after = content.split("{}")
    shown = text(content.format(SECRET))

    assert SECRET not in shown
    assert shown.startswith(before + "redacted-") and shown.endswith(after)


@pytest.mark.parametrize(
    "content",
    [
        "password:\n  file: /etc/x\n",
        "secrets:\n  - name: first-1\n",
        "password:\nport-80\n",
        "- name: first\n  value: second-2\n",
    ],
)
def test_yaml_similar_to_credentials_is_unchanged(content: str) -> None:
    assert text(content) == content


def test_values_of_maps_are_judged_by_their_keys() -> None:
    linux = api.LinuxContainer(
        sysctl={"net.shared_secret": "abc12", "net.core.somaxconn": "1024x"},
        resources=api.LinuxResources(unified={"x.password": "abc13", "memory.high": "max"}),
    )
    shown = given(api.Container(linux=linux)).linux

    assert shown.sysctl["net.shared_secret"].startswith("redacted-")
    assert shown.sysctl["net.core.somaxconn"] == "1024x"
    assert shown.resources.unified["x.password"].startswith("redacted-")
    assert shown.resources.unified["memory.high"] == "max"
