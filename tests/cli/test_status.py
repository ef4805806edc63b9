import io

from retinue.cli.status import Screen


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_status_line_is_drawn_at_most_ten_times_a_second() -> None:
    err, clock = Tty(), Clock()
    screen = Screen(io.StringIO(), err, now=clock)

    for _ in range(100):
        screen.status(["working"])
        clock.now += 0.01

    assert 9 <= err.getvalue().count("working") <= 11


def test_the_status_line_stands_below_text_that_is_under_way_and_is_erased_first() -> None:
    both, clock = Tty(), Clock()
    screen = Screen(both, both, now=clock)

    screen.stream("ab")
    screen.status(["working"])
    screen.line("done")

    assert "ab\n\r\x1b[K\x1b[2mworking\x1b[0m\x1b[J\x1b[1A\x1b[3G\x1b[J\ndone\n" in both.getvalue()


def test_text_that_comes_faster_than_the_line_is_drawn_is_written_with_it() -> None:
    both, clock = Tty(), Clock()
    screen = Screen(both, both, now=clock)
    screen.status(["working"])

    for piece in ("a", "b", "c"):
        screen.stream(piece)
    before = both.getvalue()
    clock.now += 1
    screen.status(["working"])

    assert "a" not in before
    assert "abc" in both.getvalue()


def test_in_a_pipe_text_does_not_stream_and_lines_go_beside_the_answer() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err)

    screen.stream("thinking aloud")
    screen.line("✓ read")
    screen.status(["working"])
    screen.answer("42")

    assert (out.getvalue(), err.getvalue()) == ("42\n", "✓ read\n")


def test_a_status_of_several_lines_is_drawn_over_the_last_one_and_cut_to_the_width() -> None:
    both, clock = Tty(), Clock()
    screen = Screen(both, both, now=clock)

    screen.status(["head", "x" * 200])

    assert both.getvalue() == f"\r\x1b[K\x1b[2mhead\x1b[0m\n\r\x1b[K\x1b[2m{'x' * 78}…\x1b[0m\x1b[J\x1b[1A\r"
