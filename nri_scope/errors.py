# SPDX-License-Identifier: Apache-2.0
"""Every exception that nri-scope raises on purpose.

The class says whose fault it is; the data is in fields and the text is built in ``__str__``.
Anything else that escapes from this package is a bug.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # To import it takes as long as the rest of a small process's start.
    from pathlib import Path


class NriScopeError(Exception):
    """Base of all errors below; the command line turns each into one line and exit status 2."""


class UsageError(NriScopeError):
    """The user asked for something that cannot be: a bad index, a contradiction of options.

    ``problem`` names what is wrong, ``hint`` the way out (may be empty).
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem}; {self.hint}" if self.hint else self.problem


class FilterError(UsageError):
    """A filter expression that does not parse, or names an unknown field.

    ``position`` is the 0-based character offset in ``expression`` where the problem starts.
    """

    def __init__(self, expression: str, position: int, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.args = (expression, position, problem, hint)
        self.expression = expression
        self.position = position

    def __str__(self) -> str:
        return f"filter: {super().__str__()} (at character {self.position + 1})"


class ConnectError(NriScopeError):
    """No connection could be made to a unix socket: missing, refused, no permission, no socket."""

    def __init__(
        self, path: str | Path, problem: str, hint: str = "", *, may_come: bool = False
    ) -> None:
        super().__init__(str(path), problem, hint)
        self.path = str(path)
        self.problem = problem
        self.hint = hint
        self.may_come = may_come
        """No runtime listens yet: waiting may help."""

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}"
        return f"{text}; {self.hint}" if self.hint else text


class ConnectionClosed(NriScopeError):
    """The connection ended while something was still expected from it."""

    def __init__(self, reason: str = "connection closed") -> None:
        super().__init__(reason)
        self.reason = reason


class ProtocolError(NriScopeError):
    """A rule of mux, ttRPC or NRI was broken. Raise one of the two children."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule; the connection cannot go on."""


class LocalProtocolError(ProtocolError):
    """We were about to break a rule; nothing was sent."""


class RpcError(NriScopeError):
    """A ttRPC call answered with an error status, or a handler that wants to answer so.

    ``code`` is a google.rpc.Code number (gRPC's list), ``message`` the peer's own words.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"rpc error: code {self.code}: {self.message}"


class DeadlineExceeded(NriScopeError):
    """A call was not answered in time. ``timeout`` in seconds."""

    def __init__(self, method: str, timeout: float) -> None:
        super().__init__(method, timeout)
        self.method = method
        self.timeout = timeout

    def __str__(self) -> str:
        return f"{self.method}: no answer within {self.timeout:g} s"


class RecordingError(NriScopeError):
    """A recording that cannot be used: not ours, newer, damaged, locked, not readable."""

    def __init__(self, path: str | Path, problem: str, hint: str = "") -> None:
        super().__init__(str(path), problem, hint)
        self.path = str(path)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.path}: {self.problem}"
        return f"{text}; {self.hint}" if self.hint else text


class RecordingCut(UserWarning):
    """Not all of a recording was read, as there is too much in one place. Says what was cut."""


class RedactionLeak(NriScopeError):
    """A replaced value is still in the output. Tells where and by which rule, never the value."""

    def __init__(
        self,
        path: str | Path,
        rule: str,
        place: str,
        hint: str = "please report it, and leave that out for now",
    ) -> None:
        super().__init__(str(path), rule, place, hint)
        self.path = str(path)
        self.rule = rule
        self.place = place
        self.hint = hint

    def __str__(self) -> str:
        return (
            f"{self.path}: not written: a value that the rule {self.rule!r} replaced is still in "
            f"{self.place}; {self.hint}"
        )


class AdjustmentRefused(NriScopeError):
    """A runtime would refuse what a plugin asked for; the text is in the runtime's own words."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
