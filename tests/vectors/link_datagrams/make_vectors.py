#!/usr/bin/env python3
"""Writes datagrams.txt: datagrams of UDP links with their fields, and bytes that a parser must refuse.

The script follows the table in runtime/link/README.md and shares no code with the C++ or the hardware.
"""

import pathlib
import struct

DATA, STATE, GREETING, SENDER_CLOSED, RECEIVER_CLOSED, RECEIVER_OPENED = range(1, 7)
FIELDS = "type tag source destination generation epoch number sequence incarnation offset last packet_bytes credits next limit arrived".split()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def encode(payload=b"", flags=None, length=None, magic=b"MRLK", version=2, header_crc=None, payload_crc=None, **fields):
    f = {name: 0 for name in FIELDS} | fields
    greets = f["type"] == GREETING
    names_receiver = f["type"] in (STATE, GREETING, RECEIVER_CLOSED, RECEIVER_OPENED)
    sequence = f["incarnation"] + (f["sequence"] << 32) if names_receiver else f["sequence"]
    head = magic + struct.pack(
        "<BBBBHHIIIQIIIIQI",
        version, f["type"], f["last"] if flags is None else flags, f["tag"], f["source"], f["destination"], f["generation"],
        f["epoch"], f["number"], sequence, f["packet_bytes"] if greets else f["offset"],
        len(payload) if length is None else length, f["next"], f["credits"] if greets else f["limit"], f["arrived"],
        crc32c(payload) if payload_crc is None else payload_crc)
    assert len(head) == 60
    return head + struct.pack("<I", crc32c(head) if header_crc is None else header_crc) + payload, f


def bytes_of(count, seed=1):
    """Returns pseudo-random bytes (a linear congruential generator)."""
    out = bytearray()
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        out.append(seed >> 16 & 0xFF)
    return bytes(out)


def inverted(datagram, bit):
    out = bytearray(datagram)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


data = dict(type=DATA, tag=3, source=258, destination=772, generation=0x01020304, epoch=7, number=0xFFFFFFFE, sequence=0x1122334455667788, offset=4096)
state = dict(type=STATE, tag=15, source=1, destination=2, generation=5, epoch=6, incarnation=0xFFFFFFFF, next=0xFFFFFFF0, limit=16, arrived=0x8000000000000001)
greeting = dict(type=GREETING, tag=0, source=0, destination=65535, generation=0xFFFFFFFF, epoch=0, number=40, incarnation=0x05060708, packet_bytes=4096, credits=16)

lines = []


def add(name, verdict, datagram, fields):
    lines.append(f"{name} {verdict} {' '.join(str(fields[n]) for n in FIELDS)} {datagram.hex() or '-'}")


for count in (1, 7, 8, 63, 64, 65, 1024, 4096):
    add(f"data_{count}", "none", *encode(bytes_of(count, count), last=count % 2, **data))
add("data_zeros", "none", *encode(bytes(64), **data))
add("data_ones", "none", *encode(b"\xff" * 64, **data))
add("state", "none", *encode(**state))
add("state_of_a_new_receiver", "none", *encode(type=STATE, incarnation=1, limit=2))
add("greeting", "none", *encode(**greeting))
add("greeting_to_an_unknown_receiver", "none", *encode(**greeting | {"incarnation": 0}))
add("sender_closed", "none", *encode(type=SENDER_CLOSED, tag=1, source=9, destination=8, generation=3, epoch=2))
closed = dict(type=RECEIVER_CLOSED, tag=1, source=9, destination=8, generation=3, epoch=2, incarnation=4)
add("receiver_closed", "none", *encode(**closed))
add("receiver_opened", "none", *encode(**closed | {"type": RECEIVER_OPENED}))

good, fields = encode(bytes_of(100), last=1, **data)
for bytes_left in (0, 1, 63):
    add(f"only_{bytes_left}_bytes", "too_short", good[:bytes_left], fields)
add("other_magic", "magic", *encode(b"x", magic=b"MRL1", **data))
add("version_1", "version", *encode(b"x", version=1, **data))
add("unknown_type", "type", *encode(b"x", **data | {"type": 7}))
add("type_0", "type", *encode(b"x", **data | {"type": 0}))
for bit in (5 * 8, 12 * 8 + 3, 48 * 8, 59 * 8 + 7, 60 * 8, 63 * 8 + 7):
    add(f"header_bit_{bit}", "header_crc", inverted(good, bit), fields)
for bit in (64 * 8, 100 * 8 + 1, 163 * 8 + 7):
    add(f"payload_bit_{bit}", "payload_crc", inverted(good, bit), fields)
add("wrong_payload_crc", "payload_crc", *encode(b"abc", payload_crc=1, **data))
add("truncated", "length", good[:-1], fields)
add("longer", "length", good + b"\0", fields)
add("data_without_payload", "field", *encode(**data))
add("data_too_long", "field", *encode(b"x", length=65444, **data))
add("data_with_state", "field", *encode(b"x", **data | {"arrived": 1}))
add("data_with_unknown_flag", "field", *encode(b"x", flags=2, **data))
add("state_with_payload", "field", *encode(b"x", **state))
add("state_with_sequence", "field", *encode(**state | {"sequence": 1}))
add("state_with_flag", "field", *encode(flags=1, **state))
add("greeting_without_credits", "field", *encode(**greeting | {"credits": 0}))
add("greeting_without_packets", "field", *encode(**greeting | {"packet_bytes": 0}))
add("greeting_with_credits_beyond_the_numbers", "field", *encode(**greeting | {"credits": 65537}))
add("state_without_incarnation", "field", *encode(**state | {"incarnation": 0}))
add("receiver_closed_without_incarnation", "field", *encode(**closed | {"incarnation": 0}))
add("receiver_opened_with_number", "field", *encode(**closed | {"type": RECEIVER_OPENED, "number": 1}))
add("greeting_with_incarnation_beyond_32_bits", "field", *encode(**greeting | {"sequence": 1}))
add("sender_closed_with_incarnation", "field", *encode(type=SENDER_CLOSED, sequence=1))
add("closed_with_limit", "field", *encode(type=SENDER_CLOSED, limit=1))

header = f"# Written by make_vectors.py. Each line: name, why a parser refuses the bytes, {', '.join(FIELDS)}, the bytes.\n"
pathlib.Path(__file__).with_name("datagrams.txt").write_text(header + "\n".join(lines) + "\n")
