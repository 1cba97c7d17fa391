# SPDX-License-Identifier: Apache-2.0
"""Requests and results of NRI 0.1."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.nri.v01 import INVOCATIONS, parse_request, result_problem

# As sent by containerd 1.6.20, shortened.
CONTAINER = {
    "version": "0.1",
    "state": "create",
    "id": "c1",
    "sandboxID": "p1",
    "pid": 7,
    "spec": {
        "resources": {},
        "annotations": {
            "io.kubernetes.cri.container-name": "app",
            "io.kubernetes.cri.sandbox-name": "web",
            "io.kubernetes.cri.sandbox-namespace": "shop",
            "io.kubernetes.cri.sandbox-uid": "u1",
        },
    },
    "labels": {"io.kubernetes.pod.name": "other"},
}


def test_a_request_about_a_container_has_names_from_annotations() -> None:
    found = parse_request(json.dumps(CONTAINER).encode())
    assert found is not None
    assert found.method == "Invoke/create"
    assert (found.pod.id, found.pod.name, found.pod.namespace, found.pod.uid) == (
        *("p1", "web", "shop", "u1"),
    )
    assert found.container is not None
    assert (found.container.id, found.container.name) == ("c1", "app")


def test_a_request_about_a_sandbox_has_no_container() -> None:
    labels = {"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop"}
    request = {"state": "delete", "id": "p1", "sandboxID": "p1", "spec": None, "labels": labels}
    found = parse_request(json.dumps(request).encode())
    assert found is not None
    assert found.container is None
    assert (found.method, found.pod.name, found.pod.namespace) == ("Invoke/delete", "web", "shop")


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "boot"},
        {"state": None},
        {"id": 7},
        {"id": ""},
        {"sandboxID": []},
        {"id": "\ud800"},
    ],
)
def test_other_values_are_no_request(changes: dict[str, object]) -> None:
    assert parse_request(json.dumps(CONTAINER | changes).encode()) is None


@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps).map(str.encode))
def test_any_bytes_are_a_request_or_none(content: bytes) -> None:
    found = parse_request(content)
    assert found is None or found.method in INVOCATIONS


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (b'{"plugin": "p", "version": "0.1", "error": ""}\n', ""),
        (b"{}", ""),
        (b'{"error": null, "metadata": {"k": "v"}}', ""),
        (b'{"error": "no luck"}', "no luck"),
        (b"", "it wrote no result"),
        (b"\n", "it wrote no result"),
        (b"hello", "its output is not a JSON object"),
        (b"[]", "its output is not a JSON object"),
        (b'{"error": 5}', "the error in its result is not a text"),
        (b'{"plugin": 5}', "the plugin in its result is not a text"),
        (b'{"metadata": {"k": 5}}', "the metadata in its result is not a mapping of texts"),
        # encoding/json refuses a second value, too.
        (b"{} {}", "its output is not a JSON object"),
    ],
)
def test_the_client_ends_the_chain_after_an_error_or_another_output(
    output: bytes, problem: str
) -> None:
    assert result_problem(output) == problem
