# SPDX-License-Identifier: Apache-2.0
"""Exceptions that nri-scope raises deliberately.

The class identifies the party at fault; fields contain the data, and ``__str__`` builds the text.
Any other exception that leaves this package is a bug.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing pathlib would double the start time of a small process.
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Self


class NriScopeError(Exception):
    """Base of all errors below; the command line turns each into one line and exit status 2."""


THE_RECORDING = "\0"
"""Stands for the path of a recording in the problem that is passed to `UsageError`."""


class UsageError(NriScopeError):
    """An impossible request by the user, such as an invalid index or contradictory options.

    ``problem`` states the error, ``hint`` the remedy (may be empty). ``path``: the recording that
    the problem names as `THE_RECORDING`.
    """

    def __init__(self, problem: str, hint: str = "", path: str | Path = "") -> None:
        self.path = str(path)
        self._unnamed_problem = problem
        self.problem = problem.replace(THE_RECORDING, self.path)
        super().__init__(self.problem, hint)
        self.hint = hint

    def about(self, path: str) -> UsageError:
        """Return the error with another name of the recording."""
        return UsageError(self._unnamed_problem, self.hint, path)

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class FilterError(UsageError):
    """A filter expression with a syntax error or an unknown field.

    ``position`` is the 0-based character offset in the expression where the problem starts.
    """

    def __init__(self, expression: str, position: int, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.args = (expression, position, problem, hint)
        self.position = position

    def __str__(self) -> str:
        return f"filter: {super().__str__()} (at character {self.position + 1})"


class FileError(NriScopeError):
    """An unusable file. Raise one of the subclasses."""

    def __init__(self, path: str | Path, problem: str, hint: str = "") -> None:
        super().__init__(str(path), problem, hint)
        self.path = str(path)
        self.problem = problem
        self.hint = hint

    def about(self, path: str) -> Self:
        """Return the error with another name of the file."""
        return type(self)(path, self.problem, self.hint)

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}"
        return f"{text}; {self.hint}" if self.hint else text


class ConnectError(FileError):
    """A unix socket that cannot be connected to or listened on, or is not a socket."""

    def __init__(
        self, path: str | Path, problem: str, hint: str = "", *, can_retry: bool = False
    ) -> None:
        super().__init__(path, problem, hint)
        self.can_retry = can_retry
        """Whether a runtime may start to listen later, so that a retry can succeed."""


class ConnectionClosed(NriScopeError):
    """The connection ended before an expected message arrived."""

    def __init__(self, reason: str = "connection closed") -> None:
        super().__init__(reason)
        self.reason = reason


class ProtocolViolated(ConnectionClosed):
    """The connection ended because the peer violated a rule of the protocol."""


class ProtocolError(NriScopeError):
    """Violation of a mux, ttRPC or NRI rule. Raise one of the two subclasses."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class RemoteProtocolError(ProtocolError):
    """The peer violated a rule; the connection cannot continue."""


class LocalProtocolError(ProtocolError):
    """A call that would have violated a rule; nothing was sent."""


class RpcError(NriScopeError):
    """Error status of a ttRPC reply, received by a caller or raised by a handler to send it.

    ``code`` is a google.rpc.Code number, ``message`` the text of the peer that replied.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"rpc error: code {self.code}: {self.message}"


def reason_of(error: BaseException) -> str:
    """Return an error's reason in lower case; an OSError's without number and path."""
    return str(getattr(error, "strerror", None) or error).lower()


def limit_words(seconds: float) -> str:
    """Return a limit of time in all digits: ``2 s``, ``0.6 s``, ``1.5 ms``."""
    return f"{seconds:g} s" if seconds >= 0.1 else f"{seconds * 1000:g} ms"


def nearest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the most similar known word, ignoring case; "" if none is similar."""
    return next(iter(nearest_words(word, known, 1, cutoff=cutoff)), "")


def nearest_words(word: str, known: Iterable[str], most: int, *, cutoff: float) -> list[str]:
    """Return at most ``most`` known words, the most similar first, ignoring case."""
    # Imported here: few processes need it.
    import difflib

    by_lower = {each.lower(): each for each in known}
    # Long words take quadratic time.
    near = difflib.get_close_matches(word[:300].lower(), list(by_lower), n=most, cutoff=cutoff)
    return [by_lower[each] for each in near]


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the hint ``did you mean NAME?`` with the most similar name; "" if none is similar."""
    nearest = nearest_word(word, known, cutoff=cutoff)
    return f"did you mean {nearest}?" if nearest else ""


class DeadlineExceeded(NriScopeError):
    """No reply to a call within ``timeout`` seconds."""

    def __init__(self, method: str, timeout: float) -> None:
        super().__init__(method, timeout)
        self.method = method
        self.timeout = timeout

    def __str__(self) -> str:
        return f"{self.method}: no answer within {limit_words(self.timeout)}"


class RecordingError(FileError):
    """An unusable recording: another kind of file, too new, damaged, locked or unreadable."""


class RecordingCut(UserWarning):
    """Warning that a part of a recording exceeds a limit and was not read; names that part."""


class RedactionLeak(NriScopeError):
    """A redacted value that is still in the output. Names the place and the rule, not the value."""

    def __init__(
        self,
        path: str | Path,
        rule: str,
        place: str,
        hint: str = "please report it, and leave this part out for now",
    ) -> None:
        super().__init__(str(path), rule, place, hint)
        self.path = str(path)
        self.rule = str(rule)
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        return (
            f"{self.path}: not written: a value that the rule {self.rule!r} replaced is still in "
            f"{self.place}; {self.hint}"
        )


class AdjustmentRefused(NriScopeError):
    """A plugin's request that a runtime would refuse; ``problem`` is the runtime's own text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class FieldConflict(AdjustmentRefused):
    """A request of ``plugin`` to set a ``field`` that ``other`` has set; both may be one plugin."""

    def __init__(self, problem: str, plugin: str, other: str, field: str) -> None:
        super().__init__(problem)
        self.plugin, self.other, self.field = plugin, other, field


class RuntimeKilled(AdjustmentRefused):
    """A plugin's message on which a runtime would crash; ``problem`` says so."""
