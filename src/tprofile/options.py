"""The options of the magic: where they end, what they mean, what is wrong with them."""

from __future__ import annotations

import argparse
import keyword
import re
from typing import Any, NoReturn

from IPython.core.error import UsageError

_WORD = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\S+)""")
_LONG_WITH_VALUE = re.compile(r"\s*(--[\w-]+)=")
_NUMBER = re.compile(r"-[\d.]")


_BYTES = ("self_device_bytes", "self_cpu_bytes")
SORTABLE = ("self_device_us", "device_us", "self_cpu_us", "cpu_us", "calls", "name", *_BYTES)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"%tprofile: {message}. See %tprofile? for the options; code that begins with a minus "
            "goes behind `--`."
        )


def _parser() -> _Parser:
    parser = _Parser(prog="%%tprofile", add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS)
    add = parser.add_argument
    add(
        "-w",
        "--warmup",
        type=int,
        default=3,
        metavar="N",
        help="unprofiled warm-up runs, each timed, then one discarded under the profiler "
        "(default 3). 0: neither, to look at a cold start",
    )
    add("-r", "--repeat", type=int, default=3, metavar="N", help="profiled runs (default 3)")
    add("--once", action="store_true", help="-w 0 -r 1: for cells with side effects")
    add("--each", metavar="CODE", help="code to run before every run, not profiled")
    add(
        "--max-seconds",
        type=float,
        metavar="S",
        help="after the first run, make fewer runs if they would take longer",
    )
    add("--cpu", action="store_true", help="record the CPU alone")
    add("--cuda", action="store_true", help="record CUDA, and fail where there is none")
    add(
        "--shapes",
        action="store_true",
        dest="shapes",
        default=True,
        help="record input shapes (default)",
    )
    add("--no-shapes", action="store_false", dest="shapes", help="do not record input shapes")
    add(
        "--memory",
        action="store_true",
        help="record allocations: the peak of each run, and what each operator allocates. Slows "
        "code that makes many",
    )
    add(
        "--flops",
        action="store_true",
        help="count the operations of operators, from the shapes of their inputs",
    )
    add(
        "--modules",
        action="store_true",
        help="mark the calls of every nn.Module: time by its path in the model. Adds some µs to a "
        "call",
    )
    add(
        "--stack",
        action="store_true",
        help="mark the lines of functions too, of this cell, other cells and files of yours. Slows "
        "all Python code",
    )
    add(
        "--compile",
        action="store_true",
        help="run the cell as it is, and with the functions and modules that it calls compiled by "
        "torch.compile, and compare the two",
    )
    add(
        "--compile-names",
        type=_names,
        metavar="A,B",
        help="the names to be compiled, in place of all that the cell calls",
    )
    add("--compile-mode", metavar="MODE", help="mode of torch.compile, such as reduce-overhead")
    add("--fullgraph", action="store_true", help="make every graph break an error")
    add(
        "--dynamic",
        action=argparse.BooleanOptionalAction,
        help="compile for shapes that change, or (--no-dynamic) anew for each",
    )
    add("--label", metavar="NAME", help="keep the profile under this name, for --vs")
    add("--vs", metavar="NAME", help="compare with the profile that was labelled so")
    add(
        "-s",
        "--sort",
        choices=SORTABLE,
        metavar="COLUMN",
        help=f"sort operators by {', '.join(SORTABLE)}. Bytes need --memory",
    )
    add("-l", "--limit", type=int, metavar="N", default=15, help="rows per table (default 15)")
    add("-o", action="store_true", dest="give", help="return the Profile")
    add("-v", metavar="VAR", dest="variable", help="store the Profile under this name")
    add("-q", action="store_true", dest="quiet", help="show no profile")
    add("-D", "--trace", metavar="FILE", help="also write the trace, gzipped if FILE ends in .gz")
    add("-T", "--text", metavar="FILE", help="also write the tables as text, with all rows")
    add(
        "--no-raise-error",
        action="store_false",
        dest="raise_error",
        help="show an error of the cell without stopping Run All",
    )
    return parser


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(name.isidentifier() for name in names):
        raise argparse.ArgumentTypeError(f"{text!r} are no names, with commas between them")
    return names


def usage() -> str:
    """Return the options as text."""
    return _parser().format_help().replace("options:", "Options:")


def parse(line: str) -> tuple[argparse.Namespace, str]:
    """Return the options at the start of a magic's line, and the code after them to the letter.

    Options end at the first word that is none, or behind `--`. Raises UsageError naming the option
    that is wrong.
    """
    parser = _parser()
    words, rest = _split(line, parser)
    options = parser.parse_args(words)
    _check(options)
    return options, rest


def _split(line: str, parser: argparse.ArgumentParser) -> tuple[list[str], str]:
    takes_value = {
        flag: action.nargs != 0 for action in parser._actions for flag in action.option_strings
    }
    words: list[str] = []
    at = 0
    while match := _WORD.match(line, at):
        word = match[1]
        if not word.startswith("-") or word == "-" or _NUMBER.match(word):
            break
        if word == "--":
            at = match.end()
            break
        at = match.end()
        if given := _LONG_WITH_VALUE.match(line, match.start()):
            # The value may be quoted, and then hold blanks.
            value = _WORD.match(line, given.end())
            at = value.end() if value and value.start(1) == given.end() else given.end()
            words.append(f"{given[1]}={_unquote(line[given.end() : at])}")
        elif takes_value.get(word):
            value = _WORD.match(line, at)
            if value is None:
                parser.error(f"option {word} needs a value")
            at = value.end()
            words += [
                f"{word}={_unquote(value[1])}" if word[1] == "-" else word + _unquote(value[1])
            ]
        else:
            words.append(word)
    return words, line[at:].lstrip() if line[at:].strip() else ""


def _unquote(word: str) -> str:
    if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]:
        return re.sub(rf"\\([{word[0]}\\])", r"\1", word[1:-1])
    return word


def _check(options: Any) -> None:
    def wrong(option: str, value: object, must: str) -> NoReturn:
        raise UsageError(f"%tprofile: {option} is {value!r}, but must be {must}.")

    if options.warmup < 0:
        wrong("--warmup", options.warmup, "0 or more")
    if options.repeat < 1:
        wrong("--repeat", options.repeat, "1 or more: profiled runs are what is shown")
    if options.limit < 1:
        wrong("--limit", options.limit, "1 or more")
    if options.max_seconds is not None and not 0 < options.max_seconds < float("inf"):
        wrong("--max-seconds", options.max_seconds, "more than 0")
    if options.sort in _BYTES and not options.memory:
        raise UsageError(
            f"%tprofile: --sort is {options.sort!r}, but memory is not recorded. Give --memory too."
        )
    if options.flops and not options.shapes:
        raise UsageError(
            "%tprofile: --flops counts from the shapes of inputs, which --no-shapes leaves out. "
            "Give one of them."
        )
    if options.compile_names is not None:
        options.compile = True
    for option, value in (
        ("--compile-mode", options.compile_mode),
        ("--fullgraph", options.fullgraph),
        ("--dynamic", options.dynamic is not None),
    ):
        if value and not options.compile:
            raise UsageError(f"%tprofile: {option} is for --compile. Give that too.")
    if options.compile and options.warmup == 0:
        raise UsageError(
            "%tprofile: --compile compares warm runs, and --warmup is 0. Give 1 or more, and leave "
            "--once out."
        )
    if options.compile and (options.vs or options.label):
        raise UsageError(
            "%tprofile: --compile makes two profiles, and --label and --vs are for one. Give one "
            "or the other."
        )
    name = options.variable
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        wrong("-v", options.variable, "a name for a variable")
    if options.cpu and options.cuda:
        raise UsageError("%tprofile: --cpu and --cuda exclude each other. Give one, or none.")
