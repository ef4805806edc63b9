"""`retinue chat`, line by line and at a real terminal."""

import pytest

from support.scripted import Setup, call


@pytest.mark.spec("API-02", "RUN-13")
def test_lines_are_messages_of_one_thread(scripted: Setup) -> None:
    scripted.agent("echo", always="<{{message}}>")

    ran = scripted.retinue("chat", "echo", stdin="hello\n/thread\n/nonsense\nbye\n/quit\nnever\n", code=0)

    assert ran.stdout == "<hello>\n<bye>\n"
    (thread,) = scripted.threads()
    assert str(thread["id"]) in ran.stderr
    assert "there is no /nonsense" in ran.stderr
    again = scripted.retinue("chat", "--thread", str(thread["id"])[:8], stdin="me again\n", code=0)
    assert again.stdout == "<me again>\n"
    assert len(scripted.threads()) == 1


@pytest.mark.spec("ASK-01")
def test_the_next_line_answers_a_question(scripted: Setup) -> None:
    scripted.agent("asker", says=[call("request_user_input", prompt="Which colour?"), "You said {{last_outcome}}."])

    ran = scripted.retinue("chat", "asker", stdin="ask me\ngreen\n", code=0)

    assert "? asker: Which colour?" in ran.stderr
    assert ran.stdout == "You said green.\n"


@pytest.mark.spec("RUN-12")
def test_a_conversation_can_be_forked(scripted: Setup) -> None:
    scripted.agent("echo", always="<{{message}}>")

    ran = scripted.retinue("chat", "echo", stdin="one\n/fork\ntwo\n", code=0)

    assert ran.stdout == "<one>\n<two>\n"
    assert len(scripted.threads()) == 2


@pytest.mark.spec("API-02", "RUN-12", "RUN-13")
def test_at_a_terminal_what_is_typed_meanwhile_is_queued_and_ctrl_c_interrupts(scripted: Setup) -> None:
    scripted.agent("slow", always={"text": "Heard: {{message}}\n", "latency": 3600})
    history = scripted.home / "chat_history"

    with scripted.terminal("chat", "slow") as terminal:
        terminal.expect("slow · /help")
        terminal.type("count\r")
        terminal.expect("0 steps")
        terminal.type("and more\r")
        terminal.until(lambda: "and more" in history.read_text())
        terminal.type("\x03")
        terminal.expect("interrupted; what you say next lets it go on")
        assert terminal.ends("\x04") == 0

    (thread,) = scripted.threads()
    shown = scripted.retinue("threads", "show", str(thread["id"]), code=0).stdout
    assert shown.index("count") < shown.index("and more")
    assert "Interrupted by user" in shown
    assert "count" in history.read_text()
