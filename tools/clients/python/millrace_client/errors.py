"""What fails, as an exception."""

from __future__ import annotations


class MillraceError(Exception):
    """`code` says what kind of failure it is: invalid, not_found, denied (the token), untrusted (the server's
    certificate), busy, unavailable, deadline, protocol or internal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
