"""The exception that all functions of this package raise."""

from __future__ import annotations


class MillraceError(Exception):
    """`code` is the kind of failure: invalid, not_found, denied (the token), untrusted (the server's
    certificate), busy, unavailable, deadline, protocol or internal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
