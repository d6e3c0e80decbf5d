"""Errors as people read them: one line, the name of what went wrong in front, and nothing a terminal acts upon."""

from __future__ import annotations

import pytest

from densevid.errors import InputError, is_out_of_memory, named, one_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("it has no a in it"), "a.mp4: it has no a in it"),
        (InputError("a.mp4: cut short"), "a.mp4: cut short"),
        (InputError("a.mp4s are not read"), "a.mp4: a.mp4s are not read"),
        (PermissionError(13, "Permission denied", "a.mp4"), "a.mp4: Permission denied"),
        (PermissionError(13, "Permission denied", "else"), "a.mp4: else: Permission denied"),
        (MemoryError(), "a.mp4: there is not enough memory for it"),
    ],
)
def test_the_name_stands_in_front_once(error: Exception, line: str) -> None:
    assert named("a.mp4", error) == line


def test_a_name_that_is_no_text_is_told_without_what_a_terminal_acts_upon() -> None:
    name = "a\x1b[31m\nb \udcff.mp4"
    assert named(name, InputError(f"{name}: cut short")) == "a?[31m b ?.mp4: cut short"
    assert one_line(InputError("two\n  lines\x07")) == "two lines?"


def test_memory_is_told_from_other_errors_of_torch() -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    assert is_out_of_memory(OutOfMemoryError("CUDA")) and is_out_of_memory(RuntimeError("x: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("shapes")) and not is_out_of_memory(InputError("memory"))
