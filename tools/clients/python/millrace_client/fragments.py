"""Assembles the fragments of one UDP response."""

from __future__ import annotations

import struct

BURST = 64  # fragments that are sent without being asked for


def fragment_size(index: int, count: int, total: int, length: int) -> int | None:
    """Returns the number of payload bytes of each fragment except the last, computed from one fragment; None if that fragment is inconsistent."""
    if index >= count:
        return None
    if count == 1:
        return total if length == total else None
    size = length
    if index == count - 1:
        if length == 0 or length > total or (total - length) % (count - 1):
            return None
        size = (total - length) // (count - 1)
    return size if size and (count - 1) * size < total <= count * size else None


class Response:
    def __init__(self, count: int, size: int, total: int) -> None:
        self.key = (count, size, total)
        self.data = bytearray(total)
        self.missing = set(range(count))
        self.asked = min(count, BURST)  # fragments with lower indices were sent unasked or asked for

    def add(self, index: int, payload: bytes) -> bool:
        if index not in self.missing:
            return False
        at = index * self.key[1]
        self.data[at : at + len(payload)] = payload
        self.missing.discard(index)
        return True

    def wants_more(self) -> bool:
        return bool(self.missing) and min(self.missing) >= self.asked

    def ask(self) -> bytes:
        """The body of the NACK that asks for the missing fragments, or for the next burst."""
        base = min(self.missing)
        if base >= self.asked:
            self.asked = min(self.key[0], base + BURST)
        wanted = sorted(i - base for i in self.missing if i < self.asked)[:BURST]
        bits = wanted[-1] + 1
        bitmap = bytearray((bits + 7) // 8)
        for bit in wanted:
            bitmap[bit // 8] |= 1 << bit % 8
        return struct.pack("<HH", base, bits) + bitmap
