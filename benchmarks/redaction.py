# SPDX-License-Identifier: Apache-2.0
"""Recall, precision and speed of redaction.

Every credential of a corpus is planted in an event of a real container, which is redacted as by
`record --redact`, without values known from earlier events. A credential counts as found if no
piece of its second half can be read in the result, even with base64 and percent-encoding decoded.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import unquote

from google.protobuf.message import Message

from benchmarks import corpora, labelled
from benchmarks.findings import Finding, table
from benchmarks.labelled import Case
from benchmarks.traffic import CAPTURES, captured, is_repeated, repeated
from nri_scope.events import CapturedCall
from nri_scope.nri.events import METHODS
from nri_scope.share.redacted_entries import SourceRedaction
from nri_scope.share.redaction import Redactor, Rules

_KEY = bytes(range(32))
_REAL_CREDENTIAL_PLACE = "container.env.DB_PASSWORD"
"""The only place in the captures that contains a credential."""
_WINDOW = 10
_WORST = 12
_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")


@dataclass
class Score:
    """Result of one group of cases."""

    right: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    """Numbers of wrong results, by name of the case."""

    @property
    def total(self) -> int:
        """Number of cases."""
        return self.right + self.wrong.total()

    @property
    def share(self) -> float:
        """Share of right results."""
        return self.right / self.total if self.total else 1.0


def measure(*, samples: int, in_places: int, megabytes: float, containers: int) -> list[Finding]:
    """Return recall and precision for ``samples`` credentials per rule, and speed.

    Each credential is planted in ``in_places`` places.
    """
    found: defaultdict[str, Score] = defaultdict(Score)
    stayed: defaultdict[str, Score] = defaultdict(Score)
    missing: list[str] = []
    for case in _cases(samples, in_places, missing):
        score = (found if case.secrets else stayed)[case.group]
        if _is_right(case):
            score.right += 1
        else:
            score.wrong[case.name] += 1
    stayed["stays: real traffic"] = _real()
    places = [score for name, score in found.items() if name.startswith(labelled.OWN)]
    forms = [score for name, score in found.items() if not name.startswith(labelled.OWN)]
    right = sum(score.right for score in found.values())
    alarms = sum(score.wrong.total() for score in stayed.values())
    lines = [f"skipped, could not be downloaded: {', '.join(missing)}"] if missing else []
    lines += ["", _scores(found, "found"), "", _scores(stayed, "left alone")]
    return [
        Finding(name="redaction: recall by place", value=_share(places), detail="\n".join(lines)),
        # Omitted if no corpus could be downloaded.
        *(Finding(name="redaction: recall by form", value=_share(forms)) for _ in forms[:1]),
        Finding(name="redaction: precision", value=right / (right + alarms)),
        Finding(name="redaction: left alone", value=_share(stayed.values())),
        Finding(name="redaction: text", value=_by_megabyte(megabytes), unit="s/MB"),
        Finding(
            name="redaction: a new container", value=_by_container(containers) * 1000, unit="ms"
        ),
        Finding(name="redaction: first text", value=_first() * 1000, unit="ms"),
    ]


def _share(groups: Iterable[Score]) -> float:
    scores = list(groups)
    return sum(score.right for score in scores) / sum(score.total for score in scores)


def _cases(samples: int, places: int, missing: list[str]) -> Iterator[Case]:
    yield from labelled.planted(4 * samples)
    yield from labelled.staying()
    for name, corpus in _CORPORA.items():
        try:
            yield from labelled.of_samples(f"by the rules of {name}", corpus(samples), places)
        except corpora.Missing as error:
            missing.append(str(error))


_CORPORA: dict[str, Callable[[int], Iterator[corpora.Sample]]] = {
    "CredSweeper": corpora.credsweeper,
    "detect-secrets": corpora.detect_secrets,
    "gitleaks": corpora.gitleaks,
}


def _is_right(case: Case) -> bool:
    event = SourceRedaction(Redactor(Rules.DEFAULT, _KEY)).redact_call(case.event)
    return not leaks(case, event) if case.secrets else stays(case, event)


def stays(case: Case, event: CapturedCall) -> bool:
    """Return whether the redacted event still contains the text to keep."""
    return any(case.kept in text for text in _texts(event))


def leaks(case: Case, event: CapturedCall) -> bool:
    """Return whether the redacted event contains a piece of a secret, also encoded."""
    texts = list(_texts(event))
    read = "\n".join((*texts, *(unpacked for text in texts for unpacked in _unpacked(text))))
    return any(_survives(secret, read) for secret in case.secrets)


def _survives(secret: str, read: str) -> bool:
    """Return whether a piece of the second half remains; the first may be a format's prefix."""
    half = secret[len(secret) // 2 :]
    length = min(_WINDOW, len(half))
    return any(half[at : at + length] in read for at in range(len(half) - length + 1))


def _texts(event: CapturedCall) -> Iterator[str]:
    yield from (event.status_message, event.method)
    yield from (text for pair in event.metadata for text in pair)
    yield from _strings(METHODS[event.method].request.FromString(event.request))


def _strings(message: Message) -> Iterator[str]:
    for described, value in message.ListFields():
        kind = described.message_type
        if isinstance(value, str):
            yield value
        elif isinstance(value, Message):
            yield from _strings(value)
        elif kind is not None and kind.GetOptions().map_entry:
            yield from (str(part) for pair in value.items() for part in pair)
        elif is_repeated(described):
            for one in value:
                yield from _strings(one) if isinstance(one, Message) else (str(one),)


def _unpacked(text: str) -> Iterator[str]:
    if "%" in text:
        yield unquote(text)
    for run in _RUN.findall(text):
        try:
            yield base64.b64decode(run + "=" * (-len(run) % 4)).decode()
        except ValueError:
            continue


def _real() -> Score:
    """Score the texts of real events, all but one without credentials."""
    score = Score()
    redactor = Redactor(Rules.DEFAULT, _KEY)
    source = SourceRedaction(redactor)
    seen: set[str] = set()
    for event in labelled.real():
        seen.update(_texts(event))
        source.redact_call(event)
    for count in redactor.tally:
        if count.place != _REAL_CREDENTIAL_PLACE:
            score.wrong[f"{count.rule} at {count.place}"] += 1
    score.right = len(seen) - score.wrong.total()
    return score


def _scores(scores: dict[str, Score], done: str) -> str:
    rows: list[tuple[str, ...]] = [("", done, "of", "share")]
    rows += [
        (name, f"{score.right:,}", f"{score.total:,}", f"{score.share:.1%}")
        for name, score in scores.items()
    ]
    right = sum(score.right for score in scores.values())
    total = sum(score.total for score in scores.values())
    rows.append(("all", f"{right:,}", f"{total:,}", f"{right / total:.1%}"))
    lines = [table(rows)]
    for name, score in scores.items():
        worst = [f"{rule} ×{n}" if n > 1 else rule for rule, n in _worst(score.wrong)]
        if worst:
            more = "" if len(worst) <= _WORST else f" … and {len(worst) - _WORST} more"
            lines.append(f"  not {done}, {name}: {'; '.join(worst[:_WORST])}{more}")
    return "\n".join(lines)


def _worst(wrong: Counter[str]) -> list[tuple[str, int]]:
    """Return the wrong results summed over places, by rule, most frequent first."""
    by_rule: Counter[str] = Counter()
    for name, count in wrong.items():
        by_rule[re.sub(r" \([A-Za-z]+\)$", "", name)] += count
    return by_rule.most_common()


# -- speed ----------------------------------------------------------------------------------


def _by_megabyte(megabytes: float) -> float:
    """Return the processor time for a megabyte of distinct lines as printed by plugins, in s."""
    stream = captured(CAPTURES / "containerd-2.1.9.jsonl.gz", "00-probe-a")
    lines: list[str] = []
    size = 0
    for event in repeated(stream, 1_000_000):
        line = " ".join(f"{event.method} {event.message}".split())
        lines.append(line)
        size += len(line)
        if size >= megabytes * 1e6:
            break
    redactor = Redactor(Rules.DEFAULT, _KEY)
    begin = time.process_time()
    for line in lines:
        redactor.text(line)
    return (time.process_time() - begin) * 1e6 / size


def _by_container(containers: int) -> float:
    """Return the median processor time to redact the CreateContainer of a new container, in s."""
    stream = captured(CAPTURES / "containerd-2.1.9.jsonl.gz", "00-probe-a")
    source = SourceRedaction(Redactor(Rules.DEFAULT, _KEY))
    times = []
    events = [event for event in stream if event.method == "CreateContainer"]
    for event in repeated(events, containers):
        item = labelled.captured_event(event.message, event.method)
        begin = time.process_time()
        source.redact_call(item)
        times.append(time.process_time() - begin)
    return median(times[len(times) // 10 :])


def _first() -> float:
    """Return the processor time for the first text of a process, which loads the rules, in s."""
    code = (
        "import time; from nri_scope.share.redaction import Redactor, Rules\n"
        "redactor = Redactor(Rules.DEFAULT, bytes(32)); begin = time.process_time()\n"
        "redactor.text('container app-1 was not found'); print(time.process_time() - begin)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    return median(runs)
