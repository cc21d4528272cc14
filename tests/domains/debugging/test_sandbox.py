"""Real attacks: none may stop or harm the run without a clear reason."""

import json
import os
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.domains.debugging.sandbox import Call, Job, Limits, Outcome, run
from dualmind.errors import DebuggingError

LIMITS = Limits(call_s=0.2, stall_s=10)
# gets at the module that holds the system's calls without importing anything
POSIX = """
def posix():
    for own in ().__class__.__base__.__subclasses__():
        if own.__name__ == 'FileFinder':
            return own.find_spec.__globals__['_os']

def write(number, text):
    try:
        posix().write(number, text)
    except OSError:
        pass

"""


def attack(body: str, before: str = "") -> Outcome:
    """The outcome of a function with this body, between two honest calls that must not suffer."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"{before}def attack():\n{lines}\n\ndef honest(a):\n    return a + 1\n"
    calls = (Call("honest", (1,)), Call("attack", ()), Call("honest", (2,)))
    ((first, found, last),) = run([Job(source, calls)], LIMITS)
    assert first == Outcome("returned", 2, "")
    assert last == Outcome("returned", 3, "")
    return found


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("import os\nwhile True:\n    os.fork()", "refused", "import os"),
        ("import subprocess\nsubprocess.run(['ls'])", "refused", "import subprocess"),
        ("import socket\nsocket.socket()", "refused", "import socket"),
        ("import ctypes", "refused", "import ctypes"),
        ("import sys\nsys.modules.clear()", "refused", "import sys"),
        ("open('file', 'w').write('x')", "refused", "open"),
        ("return open('/proc/self/environ').read()", "refused", "open"),
        ("try:\n    open('x')\nexcept BaseException:\n    pass\nreturn 1", "refused", "open"),
        ("input()", "refused", "builtins.input"),
        ("breakpoint()", "refused", "builtins.breakpoint"),
        ("while True:\n    pass", "time out", "0.2 s of CPU time"),
        ("while True:\n    print('x' * 1000)", "time out", "0.2 s of CPU time"),
        ("return sum(range(10 ** 12))", "time out", "SIGPROF"),
        ("return [0] * (10 * 2 ** 30 // 8)", "out of memory", "MemoryError"),
        ("xs = []\nwhile True:\n    xs.append(' ' * 10 ** 7)", "out of memory", "MemoryError"),
        ("return attack()", "raised", "RecursionError"),
        ("raise SystemExit(0)", "raised", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
        ("return 'x' * 10 ** 6", "raised", "a value of more than"),
        ("return 10 ** 5000", "raised", "ValueError"),
        ("return {1, 2}", "raised", "not JSON serializable"),
        ("return float('nan')", "raised", "Out of range float values"),
        ("try:\n    1 / 0\nexcept Exception as error:\n    return error.__traceback__.tb_frame", "refused", "object."),
    ],
)
def test_attack_has_a_clear_outcome_and_harms_no_other_call(body: str, kind: str, message: str) -> None:
    found = attack(body)
    assert found.kind == kind
    assert message in found.message


@pytest.mark.parametrize(
    ("body", "kinds", "message"),
    [
        ("while True:\n    posix().fork()", {"refused"}, "os.fork"),
        ("posix().execv('/bin/ls', ['ls'])", {"refused"}, "os.exec"),
        ("posix().system('ls')", {"refused"}, "os.system"),
        ("posix().kill(1, 9)", {"refused"}, "os.kill"),
        ("posix().open('/tmp/x', 65)", {"refused"}, "open"),
        ("posix().remove('/etc/passwd')", {"refused"}, "os.remove"),
        ("return posix().listdir('/')", {"refused"}, "os.listdir"),
        ("posix()._exit(0)", {"crashed"}, "ended with status 0"),
        ("posix().abort()", {"crashed"}, "ended with status -6"),
        ("posix().closerange(0, 9)\nreturn 1", {"raised", "crashed"}, ""),
        ("for i in range(3, 8):\n    write(i, b'x\\n')", {"crashed"}, "no result"),
        ("while True:\n    write(3, b'x' * 1000)", {"crashed"}, "without end"),
    ],
)  # fmt: skip
def test_code_that_gets_at_the_system_is_still_refused_or_ends_only_itself(
    body: str, kinds: set[str], message: str
) -> None:
    found = attack(body, POSIX)
    assert found.kind in kinds
    assert message in found.message


def test_code_that_catches_the_timer_is_ended() -> None:
    found = attack(
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
    )
    assert found.kind == "time out"


def test_code_that_sleeps_is_ended() -> None:
    body = "posix().read(posix().pipe()[0], 1)"
    source = f"{POSIX}def f():\n    {body}\n"
    ((found,),) = run([Job(source, (Call("f", ()),))], Limits(call_s=0.2, stall_s=1))
    assert (found.kind, found.message) == ("time out", "no result in 1 s")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children(recursive=True))
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    attack("posix().mkfifo('/fifo')\nposix().mkfifo('fifo')", POSIX)
    attack("while True:\n    posix().fork()", POSIX)
    assert list(tmp_path.iterdir()) == []
    assert not Path("/fifo").exists()
    assert set(psutil.Process().children(recursive=True)) == before
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208 - names only


def test_environment_and_arguments_do_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "1")
    found = attack("return [name.decode() for name in posix().environ]", POSIX)
    assert found.kind == "returned"
    assert "A_SECRET" not in found.value


def test_program_that_cannot_be_loaded_says_so_for_each_of_its_calls() -> None:
    calls = (Call("f", ()), Call("f", ()))
    broken, endless, missing, good = run(
        [
            Job("def f(:", calls),
            Job("while True:\n    pass", calls),
            Job("x = 1", calls),
            Job("def f():\n    return 1", calls),
        ],
        LIMITS,
    )
    assert [o.kind for o in broken] == ["raised"] * 2
    assert broken[0].message.startswith("SyntaxError")
    assert [o.kind for o in endless] == ["time out"] * 2
    assert missing[0].message == "KeyError: 'f'"
    assert good == [Outcome("returned", 1, "")] * 2


def test_jobs_do_not_share_their_names() -> None:
    call = (Call("f", ()),)
    first, second = run([Job("def f():\n    return 1\ny = 1", call), Job("def f():\n    return y", call)], LIMITS)
    assert first[0].value == 1
    assert second[0].message.startswith("NameError")


def test_program_may_use_pure_modules() -> None:
    found = attack("import math\nimport itertools\nreturn math.gcd(12, 18) + len(list(itertools.chain([1], [2])))")
    assert found == Outcome("returned", 8, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=15, deadline=None)
@given(values=st.lists(JSON, min_size=1, max_size=20))
def test_values_come_back_as_they_went_in(values: list[object]) -> None:
    (outcomes,) = run([Job("def same(x):\n    return x", tuple(Call("same", (value,)) for value in values))], LIMITS)
    assert all(outcome.gives(value) for outcome, value in zip(outcomes, values, strict=True))


@settings(max_examples=200, deadline=None)
@given(left=JSON, right=JSON)
def test_a_value_is_right_only_where_its_json_is_the_same(left: object, right: object) -> None:
    assert Outcome("returned", left, "").gives(right) == (json.dumps(left) == json.dumps(right))
    assert not Outcome("raised", left, "x").gives(left)


def test_true_is_not_one() -> None:
    assert not Outcome("returned", True, "").gives(1)


@pytest.mark.parametrize("fields", [{"call_s": 0}, {"stall_s": -1}, {"memory_bytes": 1}])
def test_limits_out_of_range_are_clear_errors(fields: dict[str, int]) -> None:
    with pytest.raises(DebuggingError, match="give times above 0 s"):
        Limits(**fields)


def test_arguments_that_are_no_json_are_a_clear_error() -> None:
    with pytest.raises(DebuggingError, match="no JSON values"):
        run([Job("def f(x):\n    return x", (Call("f", (object(),)),))])


def test_an_interpreter_that_cannot_be_started_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(DebuggingError, match="/nowhere/python cannot be started"):
        run([Job("def f():\n    return 1", (Call("f", ()),))])


def test_no_calls_start_no_process() -> None:
    assert run([]) == []
    assert run([Job("x", ())]) == [[]]
