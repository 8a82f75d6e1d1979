from __future__ import annotations

import re
from typing import Any

import pytest
from IPython.core.error import UsageError

from tprofile import options


def chosen(line: str) -> dict[str, Any]:
    return vars(options.parse(line)[0])


def code(line: str) -> str:
    return options.parse(line)[1]


def test_defaults() -> None:
    given, rest = options.parse("")
    assert rest == ""
    assert vars(given) == {
        "warmup": 3,
        "repeat": 3,
        "once": False,
        "each": None,
        "max_seconds": None,
        "cpu": False,
        "cuda": False,
        "shapes": True,
        "memory": False,
        "flops": False,
        "modules": False,
        "stack": False,
        "compile": False,
        "compile_names": None,
        "compile_mode": None,
        "fullgraph": False,
        "dynamic": None,
        "label": None,
        "vs": None,
        "sort": None,
        "limit": 15,
        "give": False,
        "variable": None,
        "quiet": False,
        "trace": None,
        "text": None,
        "raise_error": True,
    }


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("-w 1", {"warmup": 1}),
        ("-w1", {"warmup": 1}),
        ("--warmup 1", {"warmup": 1}),
        ("--warmup=1", {"warmup": 1}),
        ("  -w   1  ", {"warmup": 1}),
        ("-w 0 -r 1", {"warmup": 0, "repeat": 1}),
        ("-r5 --once", {"repeat": 5, "once": True}),
        ("--max-seconds 0.5", {"max_seconds": 0.5}),
        ("--cpu", {"cpu": True}),
        ("--cuda", {"cuda": True}),
        ("--shapes", {}),
        ("--no-shapes", {"shapes": False}),
        ("--no-shapes --shapes", {}),
        ("--memory", {"memory": True}),
        ("--flops", {"flops": True}),
        ("--modules", {"modules": True}),
        ("--stack", {"stack": True}),
        ("-s calls", {"sort": "calls"}),
        ("--sort=cpu_us -l 3", {"sort": "cpu_us", "limit": 3}),
        ("-o -q", {"give": True, "quiet": True}),
        ("-oq", {"give": True, "quiet": True}),
        ("-v p", {"variable": "p"}),
        ("--no-raise-error", {"raise_error": False}),
        ("-D trace.json.gz -T out.txt", {"trace": "trace.json.gz", "text": "out.txt"}),
        # Quoted values: blanks, quotes and backslashes in them.
        ("-D 'a b.json'", {"trace": "a b.json"}),
        ('-T "a b.txt" -q', {"text": "a b.txt", "quiet": True}),
        ("--trace='a b.json' -q", {"trace": "a b.json", "quiet": True}),
        ("--each 'x = 1; y = \"a  b\"'", {"each": 'x = 1; y = "a  b"'}),
        (r'--each "x = \"a\""', {"each": 'x = "a"'}),
        (r"-D C:\new\trace.json", {"trace": r"C:\new\trace.json"}),
        (r"-D 'C:\new folder\t.json'", {"trace": r"C:\new folder\t.json"}),
        # A value may look like an option.
        ("--each -x", {"each": "-x"}),
        ("-D -w", {"trace": "-w"}),
        ("--each=", {"each": ""}),
    ],
)
def test_options(line: str, changed: dict[str, Any]) -> None:
    assert chosen(line) == {**chosen(""), **changed}
    assert code(line) == ""


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("x = -1", "x = -1"),
        ("-q x = -1", "x = -1"),
        ("-w 1 x -r 2", "x -r 2"),
        ("-q s = 'a  b'", "s = 'a  b'"),
        ("-q 'a  -w 3'", "'a  -w 3'"),
        ("'-w 3'", "'-w 3'"),
        ("-q f(\"it's\",  '-v')", "f(\"it's\",  '-v')"),
        ("-q print('unclosed", "print('unclosed"),
        ("-1 + x", "-1 + x"),
        ("-.5 * x", "-.5 * x"),
        ("-q - x", "- x"),
        ("-q -- -x + 1", "-x + 1"),
        ("-- -w 1", "-w 1"),
        ("--", ""),
        ("-q x = 1  ", "x = 1  "),
        ("-q $x + {y} # ünï", "$x + {y} # ünï"),
        ("-q a --b", "a --b"),
        (r"-q print('\n')", r"print('\n')"),
    ],
)
def test_code_begins_at_the_first_word_that_is_no_option(line: str, rest: str) -> None:
    assert code(line) == rest


def test_options_before_code_are_read() -> None:
    given, rest = options.parse("-w 1 --each 'x = 0' -r2 y =  x - 1")
    assert (given.warmup, given.each, given.repeat, rest) == (1, "x = 0", 2, "y =  x - 1")


@pytest.mark.parametrize(
    ("line", "named", "value", "advice"),
    [
        ("-w -1", "--warmup", "-1", "0 or more"),
        ("-w two", "--warmup", "two", "int"),
        ("-w 1.5", "--warmup", "1.5", "int"),
        ("-w", "-w", "-w", "needs a value"),
        ("--warmup=", "--warmup", "''", "int"),
        ("-r 0", "--repeat", "0", "1 or more"),
        ("-l 0", "--limit", "0", "1 or more"),
        ("--max-seconds 0", "--max-seconds", "0", "more than 0"),
        ("--max-seconds nan", "--max-seconds", "nan", "more than 0"),
        ("--max-seconds soon", "--max-seconds", "soon", "float"),
        ("-s wall", "--sort", "wall", "self_cpu_us"),
        ("--flops --no-shapes", "--flops", "--no-shapes", "Give one"),
        ("-s self_cpu_bytes", "--sort", "'self_cpu_bytes'", "Give --memory too"),
        ("-s self_device_bytes", "--sort", "'self_device_bytes'", "Give --memory too"),
        ("-v 1x", "-v", "1x", "a name for a variable"),
        ("-v class", "-v", "class", "a name for a variable"),
        ("--cpu --cuda", "--cpu", "--cuda", "Give one"),
        ("--nonsense", "--nonsense", "--nonsense", "See %tprofile?"),
        ("--warm 3", "--warm", "--warm", "See %tprofile?"),
        ("-x + 1", "-x", "-x", "--"),
        ("--once=2", "--once", "2", "See %tprofile?"),
    ],
)
def test_wrong_options(line: str, named: str, value: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.parse(line)
    message = str(caught.value)
    assert message.startswith("%tprofile: ")
    assert "\n" not in message
    for part in (named, value, advice):
        assert part in message


@pytest.mark.parametrize("column", ["self_cpu_bytes", "self_device_bytes"])
def test_bytes_can_be_sorted_by_where_memory_is_recorded(column: str) -> None:
    found, _ = options.parse(f"-s {column} --memory")
    assert (found.sort, found.memory) == (column, True)


def test_usage_lists_every_option() -> None:
    usage = options.usage()
    listed = set(re.findall(r"--?[A-Za-z][a-z-]*", usage))
    known = {flag for action in options._parser()._actions for flag in action.option_strings}
    assert known <= listed
    for column in options.SORTABLE:
        assert column in usage
