"""Words and ids go round; the sizes on the real training text are the documented ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densevid.data.annotations import read_annotations
from densevid.data.vocabulary import (
    CLITICS,
    EOS,
    INIT,
    PAD,
    SPECIAL_TOKENS,
    UNKNOWN,
    Vocabulary,
    detokenize,
    read_word_list,
    tokenize,
)
from densevid.errors import InputError

SHARED = Path(__file__).parents[2] / ".." / "shared"
real = pytest.mark.skipif(not SHARED.exists(), reason="the real annotations are not beside this checkout")
WORDS = ("man", "dog", "runs", "n't", "'s")
SMALL = Vocabulary((*SPECIAL_TOKENS, *WORDS))


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("A man runs.", "a man runs"),
        (" The dog's owner doesn't care!", "the dog 's owner does n't care"),
        ("He’s sure they'd've won", "he 's sure they 'd 've won"),
        ("the man 's dog does n't", "the man 's dog does n't"),
        ("a t-shirt -- well-known, at 10:30 for $1,000.50.", "a t-shirt well-known at 10:30 for 1,000.50"),
        ("'quoted' \"words\" (and) [more]; the dogs' bowls...", "quoted words and more the dogs bowls"),
        ("five o'clock rock'n'roll", "five o'clock rock'n'roll"),
        ("Ein Café in KÖLN; ❤️ ½", "ein café in köln 1 2"),
        ("ﬁne ｗｉｄｅ cafe\u0301", "fine wide café"),
        ("मैं हिन्दी", "मैं हिन्दी"),
        ("<eos> <pad>", "eos pad"),
        ("line\nbreak\ttab\u00a0space", "line break tab space"),
        (" .,!?'-\u200b", ""),
    ],
)
def test_a_sentence_splits_into_the_papers_words(sentence: str, words: str) -> None:
    assert tokenize(sentence) == words.split()


def test_a_sentence_reads_as_people_write_it() -> None:
    assert detokenize(["the", "man", "'s", "dog", "does", "n't", "run"]) == "the man's dog doesn't run"
    assert detokenize(["'s", "'s", "a", "'s"]) == "'s 's a's"


TEXT = (
    st.text()
    | st.text(alphabet="ans'tdrevlm -.,:15A")
    | st.lists(st.sampled_from([*CLITICS, "a", "o'c"])).map(" ".join)
)


@given(TEXT)
def test_words_survive_being_written_out(sentence: str) -> None:
    words = tokenize(sentence)
    assert tokenize(detokenize(words)) == words
    assert all(word == word.lower() and not set(word) & set(' \n\t<>!?"()') for word in words)


@given(st.lists(TEXT, min_size=1), st.integers(1, 3), st.integers(1, 30))
def test_words_survive_encoding_and_decoding(sentences: list[str], min_count: int, max_words: int) -> None:
    words = [word for sentence in sentences for word in tokenize(sentence)]
    frequent = {word for word in words if words.count(word) >= min_count}
    if not frequent:
        with pytest.raises(InputError, match="min_word_count"):
            Vocabulary.build(sentences, min_count)
        return
    vocabulary = Vocabulary.build(sentences, min_count)
    assert set(vocabulary.tokens[4:]) == frequent and len(vocabulary) == 4 + len(frequent)
    for sentence in sentences:
        ids = vocabulary.encode(sentence, max_words)
        assert ids[0] == INIT and ids[-1] == EOS and len(ids) <= max_words + 1 and PAD not in ids
        kept = tokenize(sentence)[: max_words - 1]
        assert [vocabulary.tokens[number] for number in ids[1:-1]] == [w if w in frequent else "<unk>" for w in kept]
        assert tokenize(vocabulary.decode(ids)) == [word for word in kept if word in frequent]


def test_order_is_by_count_then_alphabet() -> None:
    assert Vocabulary.build(["b a", "b c", "c b d"], 1).tokens == (*SPECIAL_TOKENS, "b", "c", "a", "d")


def test_decoding_stops_at_the_end_and_skips_special_tokens() -> None:
    assert SMALL.decode([INIT, 4, UNKNOWN, 8, PAD, 5, EOS, 6, EOS]) == "man's dog"
    assert SMALL.decode([EOS, 4]) == "" and SMALL.decode([4] * 20) == " ".join(["man"] * 20)


def test_the_releases_rule_ends_nothing_and_deletes_literally() -> None:
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a", ".", "b", ".5"))
    assert vocabulary.decode_released([4, EOS, 6, PAD, 5, EOS]) == "a b"
    assert vocabulary.decode_released([EOS, EOS, 4]) == "<eos> a"  # in first place there is no space before it
    assert vocabulary.decode_released([PAD, 4, INIT, UNKNOWN]) == "<pad> a <init> <unk>"
    assert vocabulary.decode_released([5, 4, 5]) == ". a"
    assert vocabulary.decode_released([4, 7]) == "a5"  # literally


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), min_size=1), min_size=1))
def test_a_saved_vocabulary_loads_equal(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    path = tmp_path_factory.mktemp("v") / "vocabulary.txt"
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *words))
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary == read_word_list(path)
    assert path.read_bytes().decode().split("\n") == [*vocabulary.tokens, ""]
    path.write_text(json.dumps(vocabulary.tokens))
    assert read_word_list(path) == vocabulary


def test_a_word_list_is_taken_word_for_word(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(b"UNK\r\n[pad]\r\nBOS\r\nEOS\r\nThe\r\nthe")
    assert read_word_list(path).tokens == ("UNK", "[pad]", "BOS", "EOS", "The", "the")
    path.write_text("[unk]\n[pad]\nb\ne\nw\nw\n")
    assert read_word_list(path).tokens == ("[unk]", "[pad]", "b", "e", "w", "w")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1 is empty"),
        ("a\n\nb\nc\nd\ne\n", "line 2 is empty"),
        ("a\nb\n", "got 2 in all"),
        ('["a", 3]', "list of words"),
        ("[1, 2, 3, 4, 5]", "list of words"),
        ('["a", "b"', "not valid JSON"),
        ("[]", "got 0 in all"),
    ],
)
def test_a_bad_word_list_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "words"
    path.write_text(text)
    with pytest.raises(InputError, match=reason):
        read_word_list(path)


def test_loading_wants_our_special_tokens_and_saving_wants_lines(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_text("a\nb\nc\nd\ne\n")
    with pytest.raises(InputError, match="begins with <unk> <pad> <init> <eos>"):
        Vocabulary.load(path)
    with pytest.raises(InputError, match="not a readable word list"):
        Vocabulary.load(tmp_path / "nowhere")
    for token in ("a\nb", ""):
        with pytest.raises(InputError, match="cannot stand on a line"):
            Vocabulary((*SPECIAL_TOKENS, token)).save(path)


@real
def test_sizes_on_the_real_training_text() -> None:
    activitynet = read_annotations(SHARED / "data/activitynet/train.json")
    assert len(Vocabulary.build(activitynet.sentences(), 5)) == 3_876
    youcook2 = read_annotations(SHARED / "data/youcook2/youcookii_annotations_trainval.json", split="training")
    assert len(Vocabulary.build(youcook2.sentences(), 5)) == 879


@real
def test_every_real_sentence_survives_being_written_out() -> None:
    for sentence in read_annotations(SHARED / "data/activitynet/val_1.json").sentences():
        words = tokenize(sentence)
        assert words and tokenize(detokenize(words)) == words
