"""Constants of a Java class file, read as data: name of a static field -> the characters of its string.

Generated scanners keep their tables as string constants, each character one number; `lexer` reads them from
here. The layout is that of the Java Virtual Machine Specification, chapter 4 (big-endian throughout).
"""

from __future__ import annotations

import struct

import numpy as np

_UTF8, _INTEGER_LIKE, _LONG_LIKE, _STRING = 1, {3, 4, 9, 10, 11, 12, 18}, {5, 6}, 8
_ONE_INDEX = {7, 8, 16}


def string_constants(class_file: bytes) -> dict[str, np.ndarray]:
    """Every string constant that a field of the class is defined as, as its 16-bit characters."""
    texts, strings, position = _constant_pool(class_file)
    (interfaces,) = struct.unpack_from(">H", class_file, position + 6)
    position += 8 + 2 * interfaces
    (fields,) = struct.unpack_from(">H", class_file, position)
    position += 2
    constants: dict[str, np.ndarray] = {}
    for _ in range(fields):
        _, name, _, attributes = struct.unpack_from(">HHHH", class_file, position)
        position += 8
        for _ in range(attributes):
            kind, length = struct.unpack_from(">HI", class_file, position)
            position += 6
            if texts[kind] == b"ConstantValue":
                (value,) = struct.unpack_from(">H", class_file, position)
                if value in strings:
                    constants[texts[name].decode()] = _characters(texts[strings[value]])
            position += length
    return constants


def _constant_pool(class_file: bytes) -> tuple[dict[int, bytes], dict[int, int], int]:
    """Texts by index, strings as indices of their texts, and where the pool ends."""
    (count,) = struct.unpack_from(">H", class_file, 8)
    position, index = 10, 1
    texts: dict[int, bytes] = {}
    strings: dict[int, int] = {}
    while index < count:
        tag = class_file[position]
        if tag == _UTF8:
            (length,) = struct.unpack_from(">H", class_file, position + 1)
            texts[index] = class_file[position + 3 : position + 3 + length]
            position += 3 + length
        elif tag in _ONE_INDEX:
            if tag == _STRING:
                (strings[index],) = struct.unpack_from(">H", class_file, position + 1)
            position += 3
        else:
            position += 9 if tag in _LONG_LIKE else 5 if tag in _INTEGER_LIKE else 4
        index += 2 if tag in _LONG_LIKE else 1
    return texts, strings, position


def _characters(text: bytes) -> np.ndarray:
    """Decode the class file's variety of UTF-8, in which every 16-bit character stands alone."""
    byte = np.frombuffer(text + b"\0\0", np.uint8).astype(np.int64)
    first = np.flatnonzero(byte[:-2] & 0xC0 != 0x80)
    lead, second, third = byte[first], byte[first + 1] & 0x3F, byte[first + 2] & 0x3F
    two, three = (lead & 0x1F) << 6 | second, (lead & 0x0F) << 12 | second << 6 | third
    return np.where(lead < 0x80, lead, np.where(lead < 0xE0, two, three))
