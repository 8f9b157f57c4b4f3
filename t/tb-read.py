#!/usr/bin/env python3
"""tb-read.py FILE...: print 'step tag value' of TensorBoard event files.

Written from the format alone: TFRecord framing with masked CRC-32C, and the
protocol buffer wire format. Any byte that does not fit is an error.
"""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        body = data[12 : 12 + length]
        assert len(body) == length
        crc, = struct.unpack("<I", data[12 + length : 16 + length])
        assert crc == masked(body)
        yield body
        data = data[16 + length :]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            if kind == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[kind]
            value = data[at : at + size]
            assert len(value) == size
            at += size
        yield tag >> 3, value


for path in sys.argv[1:]:
    for number, record in enumerate(records(open(path, "rb").read())):
        event = dict(fields(record))
        if number == 0:
            assert event[3] == b"brain.Event:2"
            continue
        step = event.get(2, 0)
        if 7 in event:
            assert dict(fields(event[7])) == {1: 1}
            print(step, "start")
            continue
        for _, value in fields(event[5]):
            scalar = dict(fields(value))
            number = struct.unpack("<f", scalar[2])[0]
            print(step, scalar[1].decode(), "%.6g" % number)
