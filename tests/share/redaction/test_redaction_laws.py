# SPDX-License-Identifier: Apache-2.0
"""Properties of redaction for any secret in any place."""

from __future__ import annotations

import base64
import json
import random
import string
import urllib.parse
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.events import METHODS
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.builtin import DEFAULT_RULES, BuiltIn
from tests.amount import amount
from tests.recording.traffic import one_stream, random_message
from tests.share.redaction.secret_places import BARE, TELLING, Plant

KEY = bytes(range(32))
OTHER_KEY = bytes(reversed(range(32)))
_LETTERS = string.ascii_letters + string.digits
# Chosen by people or generated; each has a letter and a digit, so none is a word.
SECRETS = st.builds(
    "{}{}{}".format,
    st.text(string.ascii_letters, min_size=1, max_size=1),
    st.text(_LETTERS + "!#%*+-.^_~é", min_size=8, max_size=30),
    st.sampled_from("gkpqtwyz"),
).filter(lambda text: any(c.isdigit() for c in text) and "redacted" not in text)

_TEXT = r"""
password= token: -- " ' { } [ ] : , = @ :// / 10.0.0.1 a.example.corp hunter2 redacted- %2F \\
redacted-abcdefghijkl Bearer AKIA1234567890ABCDEF /home/ cGFzc3dvcmQ9aHVudGVyMng= ::1 fe80::2 x Y 7
"""
_CRUMBS = _TEXT.split()


def a_request() -> api.CreateContainerRequest:
    return api.CreateContainerRequest(
        pod=api.PodSandbox(
            id="8f14e45fceea167a5a36dedd4bea2543", name="web-0", uid="u-1", namespace="shop"
        ),
        container=api.Container(
            id="c9f0f895fb98ab9159f51fd0297e236d",
            pod_sandbox_id="8f14e45fceea167a5a36dedd4bea2543",
            name="app",
            args=["/app"],
            env=["PATH=/usr/bin:/bin"],
        ),
    )


def redacted(redactor: Redactor, request: api.CreateContainerRequest) -> bytes:
    return redactor.request("CreateContainer", request.SerializeToString())


def unpacked(content: bytes) -> str:
    """Return all texts that can be read in a message without knowing the secret."""
    message = api.CreateContainerRequest.FromString(content)
    texts = [content.decode("utf-8", "replace"), str(message)]
    for mapping in message.pod.annotations, message.container.annotations:
        for value in mapping.values():
            texts.append(value)
            try:
                texts.append(base64.b64decode(value, validate=True).decode("utf-8", "replace"))
            except ValueError:
                pass
    texts += [urllib.parse.unquote(text) for text in texts]
    return "\n".join(texts)


@pytest.mark.parametrize("plant", TELLING)
@settings(max_examples=amount(25, 10), deadline=None)
@given(secret=SECRETS)
def test_a_secret_in_a_telling_place_is_replaced(plant: Plant, secret: str) -> None:
    request = a_request()
    plant(request, secret)

    assert secret not in unpacked(redacted(Redactor(Rules.DEFAULT, KEY), request))


@pytest.mark.parametrize("place", BARE)
@settings(max_examples=amount(20, 10), deadline=None)
@given(secret=SECRETS)
def test_a_secret_without_a_key_is_replaced(place: Plant, secret: str) -> None:
    request = a_request()
    place(request, secret)
    redactor = Redactor(Rules.DEFAULT, KEY)

    assert secret not in unpacked(redacted(redactor, request))
    assert secret not in redactor.text(f"cannot start: bad value {secret!s} given")
    assert secret not in redactor.path(f"/mounts/~1run~1{secret.replace('~', '~0')}/options")


@settings(max_examples=amount(40, 40), deadline=None)
@given(
    secrets=st.lists(st.tuples(st.sampled_from([*TELLING, *BARE]), SECRETS), min_size=1, max_size=6)
)
def test_redacting_twice_changes_nothing(secrets: list[tuple[Plant, str]]) -> None:
    request = a_request()
    for plant, secret in secrets:
        plant(request, secret)
    once = redacted(Redactor(Rules.DEFAULT, KEY), request)
    again = Redactor(Rules.DEFAULT, OTHER_KEY)

    assert redacted(again, api.CreateContainerRequest.FromString(once)) == once
    assert again.tally.total == 0


@settings(max_examples=amount(150, 50), deadline=None)
@given(
    text=st.lists(
        st.sampled_from(_CRUMBS),
        max_size=14,
    ).map(" ".join)
    | st.text(max_size=60)
)
def test_redacted_text_stays_unchanged(text: str) -> None:
    once = Redactor(Rules.DEFAULT, KEY).text(text)

    assert Redactor(Rules.DEFAULT, OTHER_KEY).text(once) == once


_PIECES = [
    *("password=", "token: ", "--password ", "mysql -p", "echo ", "/etc/x/y", "x1y2z3", "foo", " "),
    *("\\n", "\\\n", "\n", '"', "'", '\\"', "$PW", "%20", "4096", "secret", ":", "=", ","),
    *('{"a":', 'credentials: {"type": ', "}", ";", "|", "- ", "&"),
]


@settings(max_examples=amount(100, 40), deadline=None)
@given(text=st.lists(st.sampled_from(_PIECES), min_size=2, max_size=14).map("".join))
@example(text="\\npassword=}|")
@example(text='"password=\\"')
@example(text='&token: \\"credentials: {"type": ')
@example(text='&token: /etc/x/y\\"credentials: {"type": ')
def test_redacting_scripts_and_configurations_twice_changes_nothing(text: str) -> None:
    request = a_request()
    request.container.args.extend(["sh", "-c", text])
    request.container.annotations.update(a=text, b=json.dumps({"x": text}))
    once = redacted(Redactor(Rules.DEFAULT, KEY), request)

    assert (
        redacted(Redactor(Rules.DEFAULT, OTHER_KEY), api.CreateContainerRequest.FromString(once))
        == once
    )


@settings(max_examples=amount(60, 30), deadline=None)
@given(secrets=st.lists(SECRETS, min_size=2, max_size=5, unique=True))
def test_tokens_are_equal_exactly_for_equal_values(secrets: list[str]) -> None:
    request = a_request()
    request.container.env.extend(f"V{number}={value}" for number, value in enumerate(secrets * 2))
    given_ = api.CreateContainerRequest.FromString(redacted(Redactor(Rules.DEFAULT, KEY), request))
    tokens = [entry.partition("=")[2] for entry in given_.container.env[1:]]

    assert tokens[: len(secrets)] == tokens[len(secrets) :]
    assert len(set(tokens)) == len(secrets)
    assert [entry.partition("=")[0] for entry in given_.container.env[1:]] == [
        f"V{number}" for number in range(2 * len(secrets))
    ]


@settings(max_examples=amount(60, 30), deadline=None)
@given(
    content=st.binary(max_size=60), method=st.sampled_from([*METHODS, "Unheard", "ContainerStatus"])
)
@example(content=b"\x85", method="Configure")
def test_arbitrary_bytes_are_redacted_without_an_error(content: bytes, method: str) -> None:
    redactor = Redactor(Rules.DEFAULT, KEY)
    for redact in redactor.request, redactor.reply:
        once = redact(method, content)

        assert redact(method, once) == once


@pytest.mark.parametrize("seed", range(60))
def test_redacting_random_messages_twice_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    method = chance.choice(list(METHODS.values()))
    request = random_message(method.request, chance).SerializeToString()
    reply = random_message(method.reply, chance).SerializeToString()
    on = frozenset(BuiltIn) if seed % 2 else DEFAULT_RULES
    first, second = Redactor(Rules(enabled=on), KEY), Redactor(Rules(enabled=on), OTHER_KEY)
    once = first.request(method.name, request), first.reply(method.name, reply)

    assert (second.request(method.name, once[0]), second.reply(method.name, once[1])) == once
    assert second.tally.total == 0


@pytest.mark.parametrize("capture", ["containerd-2.1.9", "cri-o-1.37"])
def test_ids_names_and_structure_of_real_traffic_are_unchanged(capture: str) -> None:
    redactor = Redactor(Rules.DEFAULT, KEY)
    for item in one_stream(capture):
        given_ = redactor.request(item.method, item.request)
        kind = METHODS[item.method].request
        before, after = kind.FromString(item.request), kind.FromString(given_)
        assert _shape(before) == _shape(after)
        for part in "pod", "container":
            if part in before.DESCRIPTOR.fields_by_name:
                was, is_ = getattr(before, part), getattr(after, part)
                assert (was.id, was.name) == (is_.id, is_.name)


def _shape(message: Any) -> object:
    match message:
        case str():
            return "text"
        case bool() | int() | float():
            return message
        case Message():
            return [(field.name, _shape(value)) for field, value in message.ListFields()]
        case _ if hasattr(message, "items"):
            return sorted(str(_shape(value)) for value in message.values())
        case _:
            return [_shape(value) for value in message]
