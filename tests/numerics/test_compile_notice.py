"""The lines that say why nothing seems to happen."""

import io
import re
import time
from contextlib import redirect_stderr
from types import SimpleNamespace

import numba

from influential_bandits.numerics.compile_notice import NOTICE, CompileNotice
from influential_bandits.numerics.streams import stream_keys


class Terminal(io.StringIO):
    def isatty(self):
        return True


OURS = SimpleNamespace(data={"dispatcher": stream_keys})
OTHERS = SimpleNamespace(data={"dispatcher": numba.njit(lambda: 0)})


def compile_for(notice, event, seconds):
    notice.on_start(event)
    time.sleep(seconds)
    notice.on_end(event)


def test_long_compiling_is_announced_once():
    with redirect_stderr(Terminal()) as terminal:
        notice = CompileNotice(0.05)
        for seconds in (0.2, 0.2, 0.0):
            compile_for(notice, OURS, seconds)
        first, *others = terminal.getvalue().splitlines()
    assert first == NOTICE
    assert len(others) == 2, "what was quick is not told"
    assert all(re.fullmatch(r"  numerics\.streams\.stream_keys: 0\.\d s", one) for one in others)


def test_short_compilations_add_up():
    with redirect_stderr(Terminal()) as terminal:
        notice = CompileNotice(0.3)
        compile_for(notice, OURS, 0.2)
        assert terminal.getvalue() == ""
        compile_for(notice, OURS, 0.2)
        assert terminal.getvalue() == NOTICE + "\n"


def test_short_compiling_is_not_announced():
    with redirect_stderr(Terminal()) as terminal:
        compile_for(CompileNotice(60.0), OURS, 0.0)
        assert terminal.getvalue() == ""


def test_what_a_compiled_function_calls_is_a_part_of_it():
    with redirect_stderr(Terminal()) as terminal:
        notice = CompileNotice(0.1)
        notice.on_start(OURS)
        compile_for(notice, OURS, 0.0)
        time.sleep(0.3)
        notice.on_end(OURS)
        assert terminal.getvalue().count("\n") == 2, "the reason, and one function"


def test_functions_of_others_are_not_ours_to_announce():
    with redirect_stderr(Terminal()) as terminal:
        compile_for(CompileNotice(0.01), OTHERS, 0.1)
        assert terminal.getvalue() == ""


def test_nobody_waits_at_a_file():
    with redirect_stderr(io.StringIO()) as file:
        compile_for(CompileNotice(0.01), OURS, 0.1)
    assert file.getvalue() == ""
