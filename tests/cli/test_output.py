import os
import pty
import sys

import pytest

from retinue.cli.output import Progress, amount, count, duration, money, plain, safe, table


def test_what_a_terminal_would_act_on_is_shown_as_a_question_mark() -> None:
    assert plain("a\x1b[31mb\nc\td") == "a?[31mb c d"
    assert safe("a\x1b[31mb\r\n\tc\x07\u202e") == "a?[31mb\n    c??"


def test_columns_are_aligned_and_the_last_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table(("A", "LONG", "TEXT"), [("1", "2", "x" * 200), ("one", "", "y")])

    assert capsys.readouterr().out == f"A    LONG  TEXT\n1    2     {'x' * 200}\none        y\n"


def test_numbers_and_words_agree() -> None:
    assert [count(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert count(2, "repository", "repositories") == "2 repositories"


def test_a_bar_is_drawn_on_a_terminal_when_the_work_takes_long_and_is_wiped_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer, inner = pty.openpty()
    with os.fdopen(inner, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress(4, "syncing", after=0.0) as bar:
            bar.step(2, what="fetching main")
        with Progress(4, "quick") as bar:
            bar.step(2)
        os.write(inner, b"END")
        drawn = ""
        while not drawn.endswith("END"):
            drawn += os.read(outer, 1000).decode()
    os.close(outer)

    assert drawn == "\r\x1b[K[##########----------] 2/4 fetching main 0s\r\x1b[KEND"


def test_nothing_is_drawn_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(4, "syncing", after=0.0) as bar:
        bar.part("syncing", 0.5)

    assert capsys.readouterr().err == ""


def test_figures_are_short() -> None:
    assert [money(n) for n in (None, 0, 12_300_000, 2_500_000_000)] == ["$?", "$0.00", "$0.0123", "$2.50"]
    assert [amount(n) for n in (999, 1_234, 2_500_000)] == ["999", "1.2k", "2.5M"]
    assert [duration(s) for s in (0.25, 12.3, 75, 3700)] == ["0.2s", "12s", "1m15s", "1h01m"]
