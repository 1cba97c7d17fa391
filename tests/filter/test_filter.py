# SPDX-License-Identifier: Apache-2.0
"""Examples for each part of the filter language."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nri_scope import filter as filters
from nri_scope.errors import FilterError
from nri_scope.events import Event, Status

EVENT = Event(
    id=42,
    session=2,
    seq=7,
    at_ns=1_763_673_480_000_000_000,
    mono_ns=5,
    plugin="00-nri-scope",
    runtime="containerd",
    method="StateChange",
    event="PostStartContainer",
    namespace="kube-system",
    pod="coredns-7db6",
    container="coredns",
    pod_id="8f14e45fceea",
    container_id="c9f0f895fb98",
    took_ns=3_400_000,
    timeout_ns=2_000_000_000,
    size=4100,
    status=Status.OK,
    status_code=0,
    status_message="",
    mark="",
    changed=("/process/env/FOO", "/linux/resources/cpu/shares"),
    owners=("30-env-injector", "60-cpu-policy"),
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "event:PostStartContainer",
        "event:poststartcontainer",
        "EVENT:PostStartContainer",
        "event:Post*",
        "event:~^Post(Start|Create)",
        "plugin:00-nri-scope",
        "plugin:nri-scope",
        "plugin:nri-*",
        "index:0",
        "index:00",
        "index:<50",
        "pod:coredns-7db6",
        "pod:coredns-*",
        "pod:~dns-[0-9]",
        'pod:"coredns-7db6"',
        "pod:'coredns-7db6'",
        "ns:kube-*",
        "container:coredns",
        "id:8f14",
        "id:c9f0f895fb98",
        "id:~98$",
        "runtime:Containerd",
        "session:2",
        "session:>=2",
        "status:ok",
        "status:OK",
        "took:>500us",
        "took:>500",
        "took:>=3.4ms",
        "took:<=3400000ns",
        "took:<1s",
        "took:3ms",
        "took:3400",
        "took:3.4ms",
        "size:>4k",
        "size:4k",
        "size:4100",
        "size:<1M",
        "changed:/process/env/FOO",
        "changed:/process/env",
        "changed:/process/env/",
        "changed:/process",
        "changed:/*/env",
        "changed:~cpu",
        "changed:*",
        "owner:60-cpu-policy",
        "owner:cpu-policy",
        "owner:*",
        "coredns",
        "COREDNS",
        "poststart",
        "kube",
        "8f14e45fceea",
        "nri-scope",
        "core*7db6",
        '"coredns"',
        "-pod:web",
        "-(pod:web OR pod:db)",
        "NOT pod:web",
        "NOT (pod:web)",
        "--coredns",
        "coredns kube",
        "coredns AND kube",
        "web OR coredns",
        "web OR coredns kube",
        "(web OR coredns) kube",
        "  coredns  ",
        "-status:ok OR took:>1ms",
    ],
)
def test_matching_filters(text: str) -> None:
    assert filters.parse(text).matches(EVENT)


@pytest.mark.parametrize(
    "text",
    [
        "event:StartContainer",
        "event:~poststart",
        "plugin:00",
        "plugin:scope",
        "index:1",
        "index:>0",
        "pod:coredns",
        "pod:Coredns-7db6",
        'pod:"coredns-*"',
        "pod:*-dns",
        "pod:coredns-7db6*6",
        'pod:""',
        "ns:kube",
        "id:42",
        "id:14e45",
        "session:1",
        "status:error",
        "took:>3.4ms",
        "took:<3.4ms",
        "took:3.3ms",
        "took:3.40001ms",
        "took:>4ms",
        "size:>4100",
        "size:5k",
        "changed:/process/en",
        "changed:/linux/*/memory",
        "owner:env",
        "web",
        '"core*7db6"',
        "-coredns",
        "-coredns kube",
        "web coredns",
        "web OR etcd",
        "-(coredns OR web)",
    ],
)
def test_filters_that_do_not_match(text: str) -> None:
    assert not filters.parse(text).matches(EVENT)


SPAN = filters.TimeSpan(EVENT.at_ns - 30 * 10**9, EVENT.at_ns + 60 * 10**9)
"""Span of a recording from 21:17:30 to 21:19:00 on 2025-11-20."""


@pytest.mark.parametrize(
    "text",
    [
        "time:+30s",
        "time:-1m",
        "time:>=+30s",
        "time:<=+30s",
        "time:>+29.9s",
        "time:<-59.9s",
        "time:+30s..+31s",
        "time:+30s..",
        "time:..-59s",
        'time:"2025-11-20 21:18Z"',
        "time:21:18Z",
        "time:21:18:00Z..21:18:01Z",
        'time:>="2025-11-20 21:18:00Z"',
        "time:2025-11-20T23:18+02:00",
        "-time:<+30s",
        "time:>=+1s time:<+31s coredns",
    ],
)
def test_times_that_match(text: str) -> None:
    assert filters.parse(text, SPAN).matches(EVENT)


@pytest.mark.parametrize(
    "text",
    ["time:+29s", "time:>+30s", "time:<+30s", "time:+29s..+30s", "time:21:17Z", "time:now"],
)
def test_times_that_do_not_match(text: str) -> None:
    assert not filters.parse(text, SPAN).matches(EVENT)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time:+2s..+1s", "+2s is not before +1s in this recording"),
        ("time:21:19Z..21:18Z", "21:19Z is not before 21:18Z in this recording"),
        ("time:+1s..+1s", "is not before"),
    ],
)
def test_a_range_without_a_time_is_an_error(text: str, words: str) -> None:
    # Without the recording, the order may be unknown.
    filters.parse(text)
    with pytest.raises(FilterError) as caught:
        filters.parse(text, SPAN)
    assert words in str(caught.value) and caught.value.position == 5


def test_a_filter_is_bound_to_the_times_of_a_recording() -> None:
    typed = filters.parse("time:+30s web")
    assert not typed.matches(replace(EVENT, pod="web"))
    bound = typed.within(SPAN)
    assert bound.matches(replace(EVENT, pod="web"))
    # The canonical text means the same in every recording.
    assert str(bound) == "time:2025-11-20T21:18:00Z..2025-11-20T21:18:01Z web"
    assert filters.parse(str(bound), filters.TimeSpan(0, 1)) == bound
    with pytest.raises(FilterError, match="occurs on several days"):
        filters.parse("time:12:00").within(filters.TimeSpan(0, 10**15))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("web", None, None),
        ("time:>=+1s web", 1, None),
        ("time:>=+1s (time:<+9s web)", 1, 9),
        ("time:+1s..+9s time:+2s..+10s", 2, 9),
        ("time:>=+1s OR web", None, None),
        ("-time:>=+1s", None, None),
    ],
)
def test_the_times_of_a_filter(text: str, low: int | None, high: int | None) -> None:
    times = filters.parse(text, SPAN).times
    assert times == (
        None if low is None else SPAN.first_ns + low * 10**9,
        None if high is None else SPAN.first_ns + high * 10**9 - 1,
    )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("pod:shop/web", "(ns:shop pod:web)"),
        ("-pod:shop/*", "-(ns:shop pod:*)"),
        ("container:shop/web/app id:3", "(ns:shop pod:web container:app) id:3"),
        ("pod:/web", '(ns:"" pod:web)'),
    ],
)
def test_a_name_may_follow_those_of_its_parents(text: str, meaning: str) -> None:
    assert filters.parse(text) == filters.parse(meaning)
    assert filters.parse(str(filters.parse(text))) == filters.parse(text)
    # In quotes it is one name.
    assert str(filters.parse('pod:"shop/web"')) == 'pod:"shop/web"'


@pytest.mark.parametrize(
    "text", ["pod:a/b/c", "container:web/app", "container:a/b/c/d", "pod:a/~*"]
)
def test_names_of_other_parents_are_an_error(text: str) -> None:
    field, _, name = text.partition(":")
    with pytest.raises(FilterError, match=f'no {field} has the name "{re.escape(name)}"'):
        filters.parse(text)


def test_an_empty_value_matches_events_without_one() -> None:
    assert filters.parse('container:""').matches(replace(EVENT, container=""))
    assert not filters.parse('container:""').matches(EVENT)


def test_and_binds_closer_than_or() -> None:
    assert filters.parse("a b OR c AND d") == filters.parse("(a b) OR (c d)")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a   AND (b)", "a b"),
        ("NOT NOT a", "--a"),
        ("(a OR b) c", "(a OR b) c"),
        ("a (b c)", "a (b c)"),
        ("NOT (a b)", "-(a b)"),
        ("pod:'my pod'", 'pod:"my pod"'),
        ('"OR"', '"OR"'),
        ('"a*"', '"a*"'),
        ("a*", "a*"),
        ("took:>=1.50ms", "took:>=1.50ms"),
        ('pod:~"a b"', 'pod:~"a b"'),
        (r'pod:~"a\d"', r'pod:~"a\\d"'),
        ("STATUS*", "STATUS*"),
        ("status:OK", "status:ok"),
        ("", ""),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(filters.parse(text)) == canonical
    assert filters.parse(canonical) == filters.parse(text)


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("pods:web", 0, 'unknown field "pods", the nearest is "pod"'),
        ("a namespace:x", 2, 'the nearest is "ns"'),
        ("took_us:>5", 0, 'the nearest is "took"'),
        ("container_id:ab", 0, 'the nearest is "id"'),
        ("sha256:abc", 0, 'unknown field "sha256"; fields are event plugin index'),
        ("event:CreateContanier", 6, 'unknown event "CreateContanier", the nearest is "Create'),
        ("event:'poststart*'", 6, 'the nearest is "PostStartContainer"'),
        ("event:xyz", 6, 'unknown event "xyz"; add a * to match values'),
        ("AND:x", 0, "unknown field"),
        (":x", 0, "name is missing"),
        ("pod:", 4, "a value for pod is missing"),
        ("pod: web", 4, "a value for pod is missing"),
        ("pod:~", 5, "a regular expression is missing"),
        ("pod:~a(b", 5, "missing )"),
        ('pod:~"a(b"', 6, "missing )"),
        ("pod:>5", 4, "pod is not a number"),
        ("time:", 5, "a time is missing"),
        ("time:soon", 5, '"soon" is not a time; write 2026-01-31T14:05:00Z, 14:05, +30s, '),
        ("a time:>=25:00", 9, '"25:00" is not a time'),
        ("time:10:00..soon", 5, '"soon" is not a time'),
        ("time:..", 5, "a time is missing"),
        ("time:>10:00..11:00", 6, ".. cannot follow >"),
        ("time:~10", 5, "time is a number"),
        ("timestamp:10:00", 0, 'the nearest is "time"'),
        ("took:~5", 5, "took is a number"),
        ("took:>", 6, "a number for took is missing"),
        ("took:>5x", 6, "write it like took:>500us"),
        ("took:>fast", 6, '"fast" is not a valid duration'),
        ("size:>5ms", 6, '"5ms" is not a valid size'),
        ("session:1k", 8, "is not a valid number"),
        ("took:>9999999999999999999h", 6, "too large"),
        ("status:eror", 7, 'the nearest is "error"'),
        ("status:xyz", 7, 'no status "xyz"; use one of ok error timeout'),
        ('id:""', 3, "matches every event"),
        ("*", 0, "matches every event"),
        ('""', 0, "matches every event"),
        ("(a", 0, "never closed"),
        ("a)", 1, "closes nothing"),
        ("()", 1, "missing here"),
        ("a AND", 5, "missing here"),
        ("OR a", 0, "missing before OR"),
        ("a OR AND b", 5, "missing before AND"),
        ("NOT", 3, "missing here"),
        ("a - b", 2, "a - without its term"),
        ("a or b", 2, "write OR"),
        ("not a", 0, "write NOT"),
        ('"abc', 0, "never closed"),
        ('"a"b', 3, "space is missing"),
        ("(" * 41 + "a" + ")" * 41, 40, "more than 40 levels"),
        ("-" * 41 + "a", 40, "more than 40 levels"),
        ("a" * 4097, 4096, "longer than 4096"),
        ("a\0", 1, "not valid text"),
        ("a\udcff", 1, "not valid text"),
    ],
)
def test_an_error_names_the_problem_and_its_position(text: str, position: int, words: str) -> None:
    with pytest.raises(FilterError) as caught:
        filters.parse(text)
    assert words in str(caught.value)
    assert caught.value.position == position
    assert f"(at character {position + 1})" in str(caught.value)


def test_fields_of_the_language() -> None:
    assert " ".join(field.name for field in filters.FIELDS) == (
        "event plugin index pod ns container id runtime session status problem took time size "
        "changed owner outcome"
    )


@pytest.mark.parametrize("field", filters.FIELDS, ids=lambda field: field.name)
def test_each_field_s_example_is_a_filter_on_it(field: filters.FilterField) -> None:
    assert field.name in field.example
    filters.parse(field.example)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ("FutureEvent", "event:FutureE*"),
        ("FutureEvent", "event:~^FutureEvent$"),
        ("StateChange(99)", 'event:"statechange(99)"'),
        ("StateChange(-1)", "(event:StateChange(-1) ns:kube-system)"),
        *((name, f"event:{name}") for name in ("Configure", "Synchronize", "Shutdown")),
        *((name, f"event:{name}") for name in ("StateChange", "RegisterPlugin")),
    ],
)
def test_every_event_can_be_matched_even_unknown_ones(event: str, text: str) -> None:
    assert filters.parse(text).matches(replace(EVENT, event=event))
