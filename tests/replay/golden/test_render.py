# SPDX-License-Identifier: Apache-2.0
"""Mismatches as lines and as JSON."""

from __future__ import annotations

import json

from hypothesis import given, settings

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.replay.golden import Golden, MismatchKind, ReplyKey, as_data, lines
from nri_scope.replay.golden.compare import MAX_SEARCHES, Mismatch
from nri_scope.replay.golden.render import MAX_LINES, MAX_SHOWN, MAX_WIDTH
from nri_scope.replay.replies import Reply
from nri_scope.text.escape import safe

from .replies import APP, a_reply, golden_of, name_of, replies, setting

EXPECTED = golden_of(a_reply(message=setting(512, FOO="bar")))


def rendered(golden: Golden, *actual: Reply) -> str:
    return "\n".join(lines(golden.compare(actual, name_of), "g.yaml"))


def test_equal_replies_have_no_lines() -> None:
    assert rendered(EXPECTED, a_reply(message=setting(512, FOO="bar"))) == ""


def test_a_differing_reply_shows_paths_values_and_the_expected_reply() -> None:
    golden = Golden.parse(EXPECTED.text.replace("512", "!tolerance 512 ±10%"), "g.yaml")
    line = golden.lines[ReplyKey("10-mine", APP, "CreateContainer")]
    assert rendered(golden, a_reply(message=setting(700, NEW="1"))) == (
        "1 mismatch (expected: golden g.yaml; got: this replay)\n"
        "10-mine shop/web/app CreateContainer: differs in 3 places\n"
        "  differing:\n"
        "    /adjust/env/FOO\n"
        "      expected bar\n"
        "      got      nothing\n"
        "    /adjust/env/NEW\n"
        "      expected nothing\n"
        "      got      '1'\n"
        "    /adjust/linux/resources/cpu/shares\n"
        "      expected !tolerance 512 ±10%\n"
        "      got      700\n"
        f"  expected (golden g.yaml, line {line}):\n"
        "    adjust:\n"
        "      env:\n"
        "        FOO: bar\n"
        "      linux:\n"
        "        resources:\n"
        "          cpu:\n"
        "            shares: !tolerance 512 ±10%"
    )


def test_a_missing_entry_shows_the_nearest_expected_reply() -> None:
    golden = golden_of(
        a_reply(message=setting(1, A="1", B="2"), subject="shop/web/far"),
        a_reply(message=setting(512, FOO="bar"), subject="shop/web/app-5d9f"),
        a_reply("StopContainer", api.StopContainerResponse(), subject=APP),
    )
    replied = [
        a_reply(message=setting(1, A="1", B="2"), subject="shop/web/far"),
        a_reply(message=setting(512, FOO="baz")),
        a_reply("StopContainer", api.StopContainerResponse(), subject=APP),
    ]
    missing, unused = golden.compare(replied, name_of)
    assert (missing.kind, missing.nearest) == (
        MismatchKind.MISSING,
        ReplyKey("10-mine", "shop/web/app-5d9f", "CreateContainer"),
    )
    assert [difference.path for difference in missing.differences] == ["/adjust/env/FOO"]
    assert (unused.kind, unused.key.subject) == (MismatchKind.UNUSED, "shop/web/app-5d9f")
    text = rendered(golden, *replied)
    assert "shop/web/app CreateContainer: got a reply that has no entry in golden g.yaml" in text
    assert "nearest expected (golden g.yaml): 10-mine shop/web/app-5d9f CreateContainer" in text
    assert (
        "shop/web/app-5d9f CreateContainer: expected, but the event did not occur (unused entry)"
        in text
    )


def test_the_nearest_entry_is_preferably_of_the_same_plugin() -> None:
    golden = golden_of(
        a_reply(message=setting(512), plugin="20-other"),
        a_reply(message=setting(1), subject="a/b/c"),
    )
    missing = golden.compare([a_reply(message=setting(512))], name_of)[1]
    assert missing.nearest == ReplyKey("10-mine", "a/b/c", "CreateContainer")


def test_empty_replies_of_a_pod_or_container_are_one_line() -> None:
    events = ("StartContainer", "PostStartContainer", "StopContainer")
    golden = golden_of(*(a_reply(event, api.Empty()) for event in events))
    text = rendered(golden, *(a_reply(event, api.Empty(), subject="a/b/c") for event in events))
    assert text.splitlines() == [
        "6 mismatches (expected: golden g.yaml; got: this replay)",
        "10-mine a/b/c: got an empty reply that has no entry in golden g.yaml: "
        "StartContainer, PostStartContainer, StopContainer",
        "10-mine shop/web/app: expected an empty reply (golden g.yaml), but the event did not "
        "occur: StartContainer, PostStartContainer, StopContainer",
    ]


def test_long_replies_and_values_are_cut_around_the_difference() -> None:
    env = {f"K{n}": "x" * 1000 for n in range(100)}
    text = rendered(golden_of(a_reply(message=setting(512, **env))), a_reply(message=setting()))
    assert len(text.splitlines()) < MAX_LINES + 10
    assert "more lines" in text
    one = golden_of(a_reply(message=setting(A="x" * 1000 + "old" + "y" * 1000)))
    text = rendered(one, a_reply(message=setting(A="x" * 1000 + "new" + "y" * 1000)))
    assert "xold" in text
    assert "xnew" in text
    assert max(map(len, text.splitlines())) <= MAX_WIDTH + 20


def test_mismatches_beyond_the_limit_are_counted() -> None:
    many = [a_reply(message=setting(n), subject=f"a/b/c{n}") for n in range(300)]
    mismatches = EXPECTED.compare(many, name_of)
    assert len(mismatches) == 301
    assert sum(mismatch.nearest is not None for mismatch in mismatches) == MAX_SEARCHES
    text = list(lines(mismatches, "g.yaml"))
    assert text[0].startswith("301 mismatches (")
    assert text[-1] == f"… and {301 - MAX_SHOWN} mismatches more"
    every = list(lines(mismatches, "g.yaml", most=None))
    assert sum("missing entry" in line for line in every) == 300


@settings(deadline=None)
@given(replies, replies)
def test_lines_are_safe_and_data_is_json_for_any_replies(
    expected: list[Reply], got: list[Reply]
) -> None:
    mismatches = Golden.parse(golden_of(*expected).text).compare(got, name_of)
    for line in lines(mismatches, "g\x1b.yaml"):
        assert safe(line) == line
    data = [as_data(mismatch) for mismatch in mismatches]
    assert json.loads(json.dumps(data)) == data


def test_data_has_both_values_and_matchers_by_name() -> None:
    golden = Golden.parse(EXPECTED.text.replace("512", "!tolerance 9 ±1"), "g.yaml")
    (mismatch,) = golden.compare([a_reply(message=setting(512, FOO="bar"))], name_of)
    data = as_data(mismatch)
    assert data["differences"] == [
        {
            "path": "/adjust/linux/resources/cpu/shares",
            "expected": {"!tolerance": "9 ±1"},
            "got": 512,
        }
    ]
    assert (data["kind"], data["plugin"], data["subject"], data["event"]) == (
        "differs",
        "10-mine",
        APP,
        "CreateContainer",
    )
    assert data["nearest"] is None
    unused = Mismatch(MismatchKind.UNUSED, mismatch.key, mismatch.expected, None)
    assert as_data(unused)["got"] is None
    assert as_data(unused)["differences"] == []
