"""The Penn Treebank tokenizer of CoreNLP 3.4.1 as an automaton: ASCII text -> tokens, without Java.

The original is a generated scanner: a table of states and, for every accepting state, one of 54 numbered actions. The
table is read from the scanner's class file in the installed jar, so that every pattern is the original's own; the
actions are written here, as rules, for the options that the caption metrics use (defaults, with line ends as tokens).
`ptb_tokenizer` is the fast entry point for whole captions.

A generated scanner keeps its tables as string constants of the class file, each character one number. The layout of a
class file is that of the Java Virtual Machine Specification, chapter 4 (big-endian throughout).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from densevid.evaluation.meteor.resources import TOKENIZER_JAR, jar_member

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


NEWLINE = "\n"
_SCANNER = "edu/stanford/nlp/process/PTBLexer.class"
_SCANNER_CRC = 0x3A2D8529
_START_STATE = 2  # the state in which the scanner begins without the option of strict treebank style
_LINE_END_ACTION = 5
_SILENT_ACTIONS = {1, 7, 23} | set(range(55, 109))  # unknown characters, white space


@dataclass(frozen=True)
class Rule:
    """What an action does once its pattern has matched: where the token ends, and how its text is rewritten."""

    give_back: int = 0  # characters at the end that were only looked at
    keep: int | None = None  # the token is this many characters long, whatever matched
    context: tuple[int, int] | None = None  # states that find where a looked-at ending of any length begins
    trim: bool = False  # white space before that ending is given back too
    period_twice: bool = False  # a final period belongs to the abbreviation and also ends the sentence
    rewrite: Callable[[str], str] | None = None


def _constant(token: str) -> Rule:
    return Rule(rewrite=lambda _: token)


def _quotes(text: str, *, opening: bool) -> str:
    single, double = ("`", "``") if opening else ("'", "''")
    text = re.sub("&apos;|'", single, text)
    return re.sub('"|&quot;', double, text)


def _brackets(text: str) -> str:
    return text.replace("(", "-LRB-").replace(")", "-RRB-")


def _hard_spaces(text: str) -> str:
    return text.replace(" ", "\xa0")


def _dashes(text: str) -> str:
    return "--" if 3 <= len(text) <= 4 else text


def _initial(text: str) -> str:
    return text[0] if len(text) == 2 else text


_opening = partial(_quotes, opening=True)
_closing = partial(_quotes, opening=False)
_ampersand = partial(re.compile("&amp;", re.IGNORECASE).sub, "&")

# Actions that are not listed give the matched text as it is.
RULES: dict[int, Rule] = {
    2: _constant("<"),
    4: Rule(rewrite=_dashes),
    8: Rule(rewrite=_closing),
    10: _constant(">"),
    11: _constant("--"),
    13: _constant("..."),
    16: _constant("-RCB-"),
    17: _constant("-LRB-"),
    18: _constant("-RRB-"),
    20: _constant("-LCB-"),
    21: _constant("-RSB-"),
    22: _constant("-LSB-"),
    24: Rule(context=(13, 14)),
    25: Rule(give_back=1),
    26: Rule(give_back=1, rewrite=_opening),
    27: Rule(rewrite=_hard_spaces),
    28: Rule(rewrite=_brackets),
    30: Rule(context=(3, 4)),
    32: Rule(give_back=1),
    33: Rule(period_twice=True),
    34: Rule(give_back=1, rewrite=_brackets),
    35: Rule(keep=1, rewrite=_opening),
    36: Rule(give_back=1, rewrite=_closing),
    37: Rule(rewrite=_ampersand),
    38: Rule(rewrite=_hard_spaces),
    39: Rule(rewrite=_hard_spaces),
    40: Rule(context=(5, 6)),
    41: Rule(context=(16, 17)),
    42: Rule(give_back=2),
    43: Rule(context=(15, 14)),
    44: Rule(context=(9, 10), trim=True),
    46: Rule(give_back=1),
    47: Rule(context=(7, 8), trim=True, period_twice=True, rewrite=_initial),
    48: Rule(give_back=2),
    49: Rule(context=(11, 12), period_twice=True),
    50: Rule(give_back=3),
    51: Rule(give_back=1, rewrite=_ampersand),
    53: Rule(give_back=4),
    54: Rule(rewrite=lambda text: _brackets(_hard_spaces(text))),
}
_PLAIN = Rule()


class Scan(NamedTuple):
    """Tokens of a text, line ends among them, and whether text after its end could still have changed them."""

    tokens: list[str]
    open_ended: bool


class Automaton:
    """The scanner's tables as lists, which Python indexes fastest, and the walk over them."""

    def __init__(self, constants: dict[str, np.ndarray]) -> None:
        attributes = _expand(constants["ZZ_ATTRIBUTE_PACKED_0"])
        parts = sorted(name for name in constants if name.startswith("ZZ_TRANS_PACKED_"))
        following = np.concatenate([_expand(constants[name]) for name in parts]) - 1
        high, low = constants["ZZ_ROWMAP_PACKED_0"].reshape(-1, 2).T
        rows = (high << 16) | low
        character_class = _expand(constants["ZZ_CMAP_PACKED"])[:128]
        self.class_of = character_class.astype(np.uint8).tobytes() + bytes(128)
        self.next: list[int] = following.tolist()
        self.row: list[int] = rows.tolist()
        self.accepts: list[bool] = (attributes & 1 == 1).tolist()
        can_continue = (following[rows[:, None] + np.unique(character_class)] >= 0).any(axis=1)
        self.ends: list[bool] = ((attributes & 8 == 8) | ~can_continue).tolist()
        self.action: list[int] = _expand(constants["ZZ_ACTION_PACKED_0"]).tolist()

    def scan(self, text: str) -> Scan:
        """All tokens of an ASCII text."""
        classes = text.encode("ascii").translate(self.class_of)
        tokens: list[str] = []
        start, open_ended = 0, False
        while start < len(text):
            action, end, undecided = self._longest(classes, start)
            # White space that fills the rest is skipped whatever follows, so it leaves nothing open.
            open_ended |= undecided and not text[start:].isspace()
            if action == _LINE_END_ACTION:
                tokens.append(NEWLINE)
            elif action not in _SILENT_ACTIONS:
                token, end = self._apply(RULES.get(action, _PLAIN), text, classes, start, end)
                tokens.append(token)
            start = end
        return Scan(tokens, open_ended)

    def _longest(self, classes: bytes, start: int) -> tuple[int, int, bool]:
        """The action and the end of the longest match at `start`, and whether the text ended before it was decided."""
        following, row, accepts = self.next, self.row, self.accepts
        state, best, end = _START_STATE, -1, start
        for position in range(start, len(classes)):
            state = following[row[state] + classes[position]]
            if state < 0:
                break
            if accepts[state]:
                best, end = state, position + 1
                if self.ends[state]:
                    break
        return self.action[best], end, state >= 0 and not self.ends[state]

    def _apply(self, rule: Rule, text: str, classes: bytes, start: int, end: int) -> tuple[str, int]:
        """The token that a rule makes of a match, and where scanning goes on."""
        if rule.context:
            end = self._before_context(classes, start, end, rule.context)
        end -= rule.give_back
        if rule.trim:
            end = start + len(text[start:end].rstrip(" \t\n\v\f\r"))
        if rule.keep is not None:
            end = start + rule.keep
        token = text[start:end]
        return rule.rewrite(token) if rule.rewrite else token, end - rule.period_twice

    def _before_context(self, classes: bytes, start: int, end: int, states: tuple[int, int]) -> int:
        """The last place where the word's own pattern, read forwards, meets the context's pattern, read backwards."""
        state, word_may_end = states[0], []
        for position in range(start, end + 1):
            word_may_end.append(state >= 0 and self.accepts[state])
            if state >= 0 and position < end:
                state = self.next[self.row[state] + classes[position]]
        state = states[1]
        while not (word_may_end[end - start] and self.accepts[state]):
            end -= 1
            state = self.next[self.row[state] + classes[end]]
        return end


def _expand(packed: np.ndarray) -> np.ndarray:
    """Undo run-length packing: count, value, count, value..."""
    return np.repeat(packed[1::2], packed[0::2])


@cache
def automaton() -> Automaton:
    """The one automaton of this process, read from the jar on first use (under a tenth of a second)."""
    return Automaton(string_constants(jar_member(TOKENIZER_JAR, _SCANNER, _SCANNER_CRC)))
