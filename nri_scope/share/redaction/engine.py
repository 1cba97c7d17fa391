# SPDX-License-Identifier: Apache-2.0
"""The state of redaction: rules, names, tokens, counts, and the results for repeated texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from nri_scope.recording.cache import RecentlyUsed

from .builtin import BuiltIn
from .harmless import HOSTS, is_harmless, is_word
from .key_names import Certainty, certainty_of
from .names import NameTokens
from .rules import Rules, any_of
from .tokens import NAMES_SCOPE, Scopes, Tokens, TokenScope, is_token

_MAX_PLACES = 500
"""Maximum number of places, which include variable names: an untrusted recording may have many."""
_MAX_DETAILS = 20_000
"""The same with subjects and tokens."""

ELSEWHERE = "elsewhere"
"""The place of replacements beyond these limits."""
_T = TypeVar("_T", str, bytes)
_Log = tuple[tuple[str, str, str, str], ...]
"""What was replaced, as in `ReplacementCounts.add`."""
MAX_TEXT = 65_536
"""Maximum number of characters of a text that is cut; a longer one is replaced as a whole."""
_CACHED = 4 << 20
"""Characters of texts whose results are kept, and bytes of parts of messages."""
MAX_WORDS = 500_000
"""Maximum number of words that are remembered for the search of the output."""
REPEATED = "repeated-values"
"""The rule for `Rules.repeated_values`."""
_MIN_KNOWN, _MAX_KNOWN = 4, 300
"""Number of characters of a value of known words that is looked for elsewhere."""
_SEPARATORS = re.compile(r"[\s\"'`=:,;?()\[\]{}<>|&/\\]+")
_MAX_ROUNDS = 6
"""Maximum number of passes over a text: a token may complete another match."""
_RUN = re.compile(r"[^\W_]{6,1000}")
"""A word for the search of the output; a longer one is split."""
_MAX_CACHED_KEY = 200
"""Maximum number of characters of a name or key whose words are cached."""


class Engine:
    """Applies the rules to texts, one after the other. Not thread-safe."""

    def __init__(
        self,
        rules: Rules,
        key: bytes,
        redact_pieces: Callable[[Engine, str, str], str],
    ) -> None:
        """``redact_pieces``: redacts a text at a place."""
        self.rules = rules
        self._redact_pieces = redact_pieces
        self.scopes = Scopes()
        self.names = NameTokens()
        self.tally = ReplacementCounts()
        self.scope = NAMES_SCOPE
        """The scope of the text being redacted."""
        self.replaced: dict[str, str] = {}
        """Unknown words that were replaced, with the rule that replaced them, up to a limit."""
        self.kept: set[str] = set()
        """Unknown words that were kept, as names and keys are, up to the same limit."""
        self.known: dict[str, set[str]] = {BuiltIn.CREDENTIAL_KEYS: set(), REPEATED: set()}
        """By rule: values of known words that were replaced, up to a limit."""
        self.repeated = NameTokens()
        """Values to replace wherever they stand, but not in names."""
        for value in rules.repeated_values:
            self.repeated.hide(value, REPEATED)
        self.ordinary: set[str] = set()
        """Chunks of texts that stay in each text, except after a folder of homes, up to a limit."""
        self._tokens = Tokens(key)
        self._hosts = any_of((*HOSTS, *rules.kept_hosts))
        self._values = frozenset(rules.kept_values)
        # By whether they are of variables: patterns of any key, and of keys that name credentials.
        self._kept_keys = {
            is_variable: (any_of(keys), any_of(filter(certainty_of, keys)))
            for is_variable, keys in ((True, rules.kept_variables), (False, rules.kept_keys))
            if keys
        }
        self._replaced_keys, self._replaced_values = (
            any_of(patterns) if patterns else None
            for patterns in (rules.replaced_keys, rules.replaced_values)
        )
        # Text or part, and scope; result, and rules applied with tokens.
        self._results: RecentlyUsed[tuple[str | bytes, TokenScope], tuple[Any, _Log]]
        self._results = RecentlyUsed(2 * _CACHED)
        # Texts and parts that stay whatever the scope.
        self._harmless: RecentlyUsed[str | bytes, bool] = RecentlyUsed(_CACHED)
        self._asked_for_names = False
        # What was replaced in the text or the part of a message that is being redacted.
        self._log: list[tuple[str, str, str, str]] | None = None

    def within(self, scope: TokenScope) -> _ScopeContext:
        """Return a context in which texts belong to this scope."""
        return _ScopeContext(self, scope)

    def is_on(self, rule: BuiltIn) -> bool:
        """Return whether a built-in rule is on."""
        return rule in self.rules.enabled

    def is_shown(self, text: str) -> bool:
        """Return whether a text is a name or a value that stays in texts of the current scope."""
        self._asked_for_names = True
        return text in self._values or self.names.is_shown(text, self._pod)

    @property
    def _pod(self) -> str:
        pod = self.scope.pod
        return pod if pod.startswith("pod ") else ""

    def show(self, name: str, *, everywhere: bool = False) -> None:
        """Note a name of the current pod, or one of the node, which all texts may show."""
        self.names.show(name, "" if everywhere else self._pod)

    def hide(self, name: str, rule: str) -> None:
        """Note a name that ``rule`` replaces in all later texts."""
        if self.names.hide(name, rule):
            self._results.clear()
            self._harmless.clear()

    def count(self, rule: str, place: str, token: str = "") -> None:
        """Count one replacement by ``rule``."""
        subject = self.scope.subject if self.tally.has_subjects else ""
        self._note(((rule, place, subject, token),))

    def _note(self, replacements: _Log) -> None:
        if self._log is not None:
            self._log += replacements
            return
        for replacement in replacements:
            self.tally.add(*replacement)

    def replace(self, rule: str, value: str, place: str, scope: str | None = None) -> str:
        """Return the token for ``value`` and count it, unless it is a token or kept."""
        bare = value.strip()
        if not bare or is_token(bare) or value in self._values:
            return value
        token = self._tokens.token_for(value, self.scope.name if scope is None else scope)
        self.count(rule, place, token)
        if len(self.replaced) < MAX_WORDS:
            for word in unknown_words(value[:MAX_TEXT]):
                self.replaced.setdefault(word, rule)
        if rule in self.known and _MIN_KNOWN <= len(bare) <= _MAX_KNOWN:
            of_rule = self.known[rule]
            if len(of_rule) < _MAX_PLACES and all(map(is_harmless, _SEPARATORS.split(bare))):
                of_rule.add(bare)
        return token

    def keep(self, text: str) -> str:
        """Return a text that stays for its place: a name, an id, a key."""
        if text not in self.kept and len(self.kept) < MAX_WORDS:
            self.kept.update(unknown_words(text))
        return text

    def is_allowed_host(self, host: str) -> bool:
        """Return whether a host name stays."""
        return self._hosts.fullmatch(host.lower().rstrip(".")) is not None

    def certainty_of(self, key: str) -> Certainty:
        """Return how certain it is that the value of a key is to be replaced."""
        keys = self._replaced_keys
        if keys is not None and keys.fullmatch(key.removeprefix("--")) is not None:
            return Certainty.SURE
        return certainty_of(key)

    def keeps(self, key: str, *, is_variable: bool = False) -> bool:
        """Return whether the user's rules keep the value of a key.

        A pattern such as ``APP_*`` keeps that of a credential only if it names one itself, as
        ``*_TOKEN`` does.
        """
        kept = self._kept_keys.get(is_variable)
        if kept is None:
            return False
        bare = key.lstrip("-")
        return kept[bool(certainty_of(bare))].fullmatch(bare) is not None

    def must_go(self, text: str) -> bool:
        """Return whether the user's rules replace a piece of a text."""
        values = self._replaced_values
        return values is not None and values.fullmatch(text) is not None

    # -- texts and parts of messages --------------------------------------------------------

    def redact_text(self, text: str, place: str) -> str:
        """Return ``text`` with tokens in place of what is not known to be harmless."""
        if text in self._harmless or not text or is_token(text):
            return text
        if len(text) > MAX_TEXT and self.is_on(BuiltIn.LONG_TEXTS):
            return self.replace(BuiltIn.LONG_TEXTS, text, place)
        redacted, replacements = self._remembered(
            text, text, lambda: text if text in self._values else self._redact_whole(text, place)
        )
        for rule, _, _, token in replacements:
            self.count(rule, place, token)
        return redacted

    def _remembered(self, key: _T, original: _T, redact: Callable[[], _T]) -> tuple[_T, _Log]:
        """Return the result of ``redact`` in the current scope, and what it replaced."""
        result: tuple[_T, _Log] | None = self._results.get((key, self.scope))
        if result is not None:
            self._asked_for_names = True
            return result
        outer, self._log = self._log, []
        outer_asked, self._asked_for_names = self._asked_for_names, False
        try:
            result = redact(), tuple(self._log)
            # Whole messages also have names to note.
            is_message = outer is None and key is not original
            is_asked = is_message or self._asked_for_names or self.names.has_hidden
            if result[0] == original and not is_asked:
                self._harmless.put(key, True, len(key) + 64)
            else:
                self._results.put((key, self.scope), result, len(key) + 128)
        finally:
            self._log = outer
            self._asked_for_names |= outer_asked
        return result

    def _redact_whole(self, text: str, place: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            # A lone surrogate, which can only originate from an escape in JSON.
            return self.replace(BuiltIn.UNREADABLE, text, place)
        text = self.redact_hidden_names(text, place)
        for _ in range(_MAX_ROUNDS):
            before, text = text, self._redact_pieces(self, text, place)
            if text == before:
                break
        return text

    def redact_hidden_names(self, text: str, place: str, names: NameTokens | None = None) -> str:
        """Replace hidden names in a text.

        ``names``: other values to replace instead, in the current scope.
        """
        hidden, scope = (self.names, NAMES_SCOPE.name) if names is None else (names, None)
        if not hidden.has_hidden:
            return text
        pieces: list[str] = []
        done = 0
        for start, end, rule in hidden.hidden_in(text):
            token = self.replace(rule, text[start:end], place, scope)
            pieces += text[done:start], token
            done = end
        return "".join((*pieces, text[done:])) if pieces else text

    def redact_part(self, place: str, content: bytes, redact: Callable[[], bytes]) -> bytes:
        """Return the result of ``redact`` for a part of a message: few differ between events."""
        part = f"{place} ".encode() + content
        if part in self._harmless:
            return content
        redacted, replacements = self._remembered(part, content, redact)
        self._note(replacements)
        return redacted


def unknown_words(text: str) -> Sequence[str]:
    """Return the runs of letters and digits that no vocabulary has, for a search of the output."""
    return (
        _unknown_words(text) if len(text) <= _MAX_CACHED_KEY else _unknown_words.__wrapped__(text)
    )


@lru_cache(maxsize=1 << 14)
def _unknown_words(text: str) -> Sequence[str]:
    return tuple(word for word in _RUN.findall(text) if not is_word(word))


class _ScopeContext:
    """The context manager of `Engine.within`; entered often, so faster than a generator."""

    __slots__ = ("_before", "_engine", "_scope")

    def __init__(self, engine: Engine, scope: TokenScope) -> None:
        self._engine = engine
        self._scope = scope
        self._before = engine.scope

    def __enter__(self) -> None:
        self._engine.scope = self._scope

    def __exit__(self, *_: object) -> None:
        self._engine.scope = self._before


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the report."""

    rule: str
    place: str
    """The field in NRI terms, e.g. ``container.env.DB_PASSWORD`` or ``status_message``."""
    values: int
    """Number of replacements at this place."""
    subject: str = ""
    """The container or pod, if `ReplacementCounts.has_subjects`."""
    token: str = ""
    """What replaced the values, if `ReplacementCounts.has_tokens`."""


class ReplacementCounts:
    """Counts replacements."""

    def __init__(self) -> None:
        self.has_subjects = self.has_tokens = False
        """Whether to count by subject and token, too; to be set before the first replacement."""
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, rule: str, place: str, subject: str = "", token: str = "") -> None:
        """Count a replacement; beyond a limit, places share one line."""
        replacement: tuple[str, ...] = rule, place
        if self.has_subjects:
            replacement += (subject, token if self.has_tokens else "")
        most = _MAX_DETAILS if self.has_subjects else _MAX_PLACES
        if replacement not in self._counts and len(self._counts) >= most:
            replacement = rule, ELSEWHERE
        self._counts[replacement] += 1

    @property
    def total(self) -> int:
        """The number of all replacements."""
        return self._counts.total()

    def by_rule(self) -> dict[str, int]:
        """Return the number of replacements by rule, sorted by rule name."""
        sums: Counter[str] = Counter()
        for count in self:
            sums[count.rule] += count.values
        return dict(sums)

    def __iter__(self) -> Iterator[Count]:
        for (rule, place, *details), values in sorted(self._counts.items()):
            yield Count(rule, place, values, *details)
