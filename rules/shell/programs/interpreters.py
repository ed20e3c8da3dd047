"""Interpreters of other languages: how they receive their programs, which `inline` judges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..invocations import AssumedVariables, FromFile, Input, Run, ScriptFile, Tool, WrittenFile, as_path
from ..words import Word, plain
from .inline import JUDGES, WRITTEN
from .options import UnclearError, by_name, names, next_word

_QUESTIONS = names("--version -v -V --help -version version")
_AWK_FLAGS = names("--posix --csv --re-interval -P -n -N --version --sandbox -S -V -b")
_LOADERS = names("--require --import --loader --experimental-loader --env-file -r")
"""Options of interpreters that name what is loaded before the program."""


def language(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`m4`, `tclsh` and others whose language is not analysed: unclear unless they run a file."""
    arguments = [word for word in words[1:] if not word.text.startswith("-")]
    options = re.compile(r"-(?:[a-zA-Z]*[ceErDsx]|-e|-script|-batch|-load|-run)")
    if not arguments or any(options.match(word.text) for word in words[1:]):
        if len(words) != 2 or words[1].text not in _QUESTIONS:
            raise UnclearError(f"what the program given to '{words[0].text}' runs is not known")
        return
    if not arguments[0].known:
        raise UnclearError(f"what '{words[0].text}' runs is known only when it runs")
    yield ScriptFile((as_path(arguments[0]), *words[words.index(arguments[0]) + 1 :]))


def awk(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    sources: list[Word] = []
    file = False
    at = 1
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or text == "-":
            break
        name, equals, value = text.partition("=")
        following = next_word(words, at)
        if text[:2] in {"-F", "-v"} and not text.startswith("--"):
            at += 1 if len(text) > 2 else 2
        elif text[:2] in {"-f", "-E"} and not text.startswith("--"):
            source = plain(text[2:]) if len(text) > 2 else following
            if source.text in {"-", "/dev/stdin"} or not source.known:
                raise UnclearError(f"what '{words[0].text}' runs is not known")
            file = True
            yield ScriptFile((as_path(source),))
            at += 1 if len(text) > 2 else 2
        elif text in {"-e", "--source"}:
            sources.append(following)
            at += 2
        elif name == "--source" and equals:
            sources.append(plain(value))
            at += 1
        elif text in _AWK_FLAGS:
            at += 1
        elif name in {"--field-separator", "--assign"}:
            at += 1 if equals else 2
        elif text == "-i" and following.text == "inplace":
            at += 2
        else:
            raise UnclearError(f"'{text}' is no option known of '{words[0].text}'")
    if not sources and not file and at < len(words):
        sources.append(words[at])
    yield from _judged(sources, "awk")


def sed(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    sources: list[Word] = []
    file = False
    at = 1
    operands: list[Word] = []
    while at < len(words):
        text = words[at].text
        name, equals, value = text.partition("=")
        following = next_word(words, at)
        at += 1
        if name == "--expression":
            sources.append(plain(value) if equals else following)
            at += not equals
        elif name == "--file":
            file = True
            at += not equals
        elif text.startswith("--") and text != "--":
            continue
        elif text.startswith("-") and len(text) > 1 and text != "--":
            letters = text[1:]
            for position, letter in enumerate(letters):
                if letter in "ef":
                    argument = letters[position + 1 :]
                    source = Word(argument, "", words[at - 1].known) if argument else following
                    at += not argument
                    if letter == "e":
                        sources.append(source)
                    else:
                        file = True
                        if source.text in {"-", "/dev/stdin"} or not source.known:
                            raise UnclearError(f"what '{words[0].text}' runs is not known")
                    break
                if letter == "l":
                    at += not letters[position + 1 :]
                    break
                if letter == "i":
                    break
        else:
            operands.append(words[at - 1])
    if not sources and not file and operands:
        sources.append(operands[0])
    yield from _judged(sources, "sed")


def _judged(sources: Sequence[Word], language: str) -> Iterator[Run]:
    """Programs in another language on a command line: unclear unless proved harmless."""
    yield from ()
    for source in sources:
        text = source.text
        if not source.known:
            text = _without_values(source, language)
            yield from _relied(source.text)
        if language not in JUDGES:
            raise UnclearError(f"what the {language} program in it runs is not known")
        if reason := JUDGES[language](text):
            raise UnclearError(reason)
        for path in WRITTEN[language](text) if language in WRITTEN else ():
            yield WrittenFile(plain(path) if path else _SOME_FILE)


def _without_values(source: Word, language: str) -> str:
    """A program that contains plain variables, whose values are assumed to be like `x` in sed and awk.

    A value may be anything, including a command of the language. So the places where the shell inserts
    values must be texts in the program.
    """
    if language != "sed" or not _SED_VALUES.fullmatch(source.text):
        raise UnclearError(f"the {language} program in it is known only when it runs")
    return _VARIABLE.sub("1", source.text)


def _relied(script: str) -> Iterator[Run]:
    """Variables in a sed script: numbers of lines, or texts between the marks of `s`."""
    kind = "text" if script.startswith("s") else "number"
    yield AssumedVariables(tuple(found[1] or found[2] for found in _NAME.finditer(script)), kind)


_NAME = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})|\$\(\([^()`$]*\)\)")
_LINE = r"(?:\$(?:\w+|\{\w+\}|\(\([\w+* -]*\)\))|\d+)"
_SED_VALUES = re.compile(
    rf"{_LINE}(?:,(?:{_LINE}|\$))?p|\d+,?(?:\$\{{?\w+\}}?)?[pdq]"
    r"|s(?P<d>[/|#,@:])(?:[^\\`(](?!(?P=d)))*.?(?P=d)[^\\`(]*(?P=d)g?"
)


class _Interpreter:
    """Options by which an interpreter receives its program.

    `code` are the letters of options with a program, `values` those of other options with a value,
    `longs` the long names of the first, `modules` the letter that names a module to run.
    """

    def __init__(
        self, language: str, code: str, values: str = "", *longs: str, modules: str = ""
    ) -> None:
        self._language, self._code, self._values = language, code, values
        self._longs, self._modules = frozenset(longs), modules

    def __call__(self, words: Sequence[Word], stdin: Input) -> Iterator[Run]:
        name = words[0].text
        sources: list[Word] = []
        at = 1
        while at < len(words):
            word = words[at]
            text = word.text
            following = next_word(words, at)
            if not word.known and not _OPERAND.match(text):
                raise UnclearError(f"an option of '{name}' is known only when it runs")
            if not text.startswith("-") or text in {"-", "--"}:
                break
            at += 1
            long, equals, value = text.partition("=")
            if text in _ONLY_SHOWN:
                return
            if long in self._longs:
                sources.append(Word(value, "", word.known) if equals else following)
                at += not equals
                continue
            if text.startswith("--"):
                if long in _LOADERS:
                    at += not equals
                    if (not equals and following.text.startswith("data:")) or value.startswith("data:"):
                        raise UnclearError(f"'{name}' loads a program")
                continue
            at, is_done = self._letters(words, at, sources)
            if is_done:
                yield from _judged(sources, self._language)
                return
        if sources:
            yield from _judged(sources, self._language)
            return
        arguments = words[at:]
        if arguments and arguments[0].text == "--":
            arguments = arguments[1:]
        if arguments and arguments[0].text not in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}:
            if (not arguments[0].known and not arguments[0].single) or arguments[0].text.startswith(
                ("<(", "$(", "`", "/dev/fd/", "/proc/")
            ):
                if _OPERAND.match(arguments[0].text):
                    return
                raise UnclearError(f"what '{name}' runs is known only when it runs")
            yield ScriptFile((as_path(arguments[0]), *arguments[1:]))
        elif isinstance(stdin, FromFile):
            yield ScriptFile((as_path(stdin.name),))
        elif isinstance(stdin, Word):
            yield from _judged([stdin], self._language)
        else:
            raise UnclearError(f"'{name}' runs what it reads from its input")

    def _letters(self, words: Sequence[Word], at: int, sources: list[Word]) -> tuple[int, bool]:
        """Read a cluster of letters; also return whether the program's own words follow."""
        word = words[at - 1]
        following = words[at] if at < len(words) else plain("")
        letters = word.text[1:]
        for position, letter in enumerate(letters):
            argument = letters[position + 1 :]
            if letter in self._code:
                sources.append(
                    Word(argument, "", word.known) if argument and self._language != "node" else following
                )
                ends = self._language in {"python"}
                return at + (not argument or self._language == "node"), ends
            if letter in self._modules:
                module = argument or following.text
                package = module.partition(".")[0]
                if package in _PYTHON_RUNNERS or not (word.known if argument else following.known):
                    if _PACKAGE.match(module) and package not in _PYTHON_RUNNERS:
                        return len(words), True
                    raise UnclearError(f"what '-m {module}' runs is not known")
                return len(words), True
            if letter == "d" and self._language == "php" and "auto_" in (argument or following.text):
                raise UnclearError("an option of 'php' runs a program")
            if letter in "Mmd" and self._language == "perl":
                if letter == "d" or not re.fullmatch(r"-?[\w:]*(?:=[\w,]*)?", argument):
                    raise UnclearError("an option of 'perl' runs a program")
                return at, False
            if letter == "F" and self._language == "perl" and re.search(r"[@$({]", argument):
                raise UnclearError("an option of 'perl' runs a program")
            if (
                letter in "iF0lCx"
                and self._language in {"perl", "ruby"}
                and (argument[:1].isdigit() or letter in "iFC")
            ):
                if letter in "0l":
                    continue
                return at, False
            if letter in self._values:
                return at + (not argument), False
        return at, False


_SOME_FILE = Word("$_", "", known=False)
"""A file of any name."""
_OPERAND = re.compile(r"[A-Za-z0-9_./]")
_PACKAGE = re.compile(r"[a-z_]\w*\.")
_ONLY_SHOWN = names("--version -V --help -h -v -version --v8-options")
_PYTHON_RUNNERS = names("pdb timeit code codeop trace cProfile profile runpy asyncio idlelib bdb doctest")
_PERL = _Interpreter("perl", "eE", "I")
_PYTHON = _Interpreter("python", "c", "WXQ", modules="m")
_NODE = _Interpreter("node", "ep", "rC", "--eval", "--print", "-pe")
_RUBY = _Interpreter("ruby", "e", "rIEK")
_PHP = _Interpreter("php", "rBRE", "cdfFzstS", "--run")
_LUA = _Interpreter("lua", "e", "l")
_VERSIONED = re.compile(r"(python|pypy|perl|ruby|php|lua|tclsh|node)[\d.]+(?:-\w+)?")
INTERPRETERS: Mapping[str, Tool] = {
    "python": _PYTHON,
    "pypy": _PYTHON,
    "perl": _PERL,
    "ruby": _RUBY,
    "php": _PHP,
    "lua": _LUA,
    "luajit": _LUA,
    "node": _NODE,
    "nodejs": _NODE,
    "tclsh": language,
}


def interpreter(name: str) -> Tool | None:
    """Analyser of this interpreter, whose name may end in a version."""
    found = _VERSIONED.fullmatch(name)
    return INTERPRETERS.get(found[1]) if found else None


LANGUAGES: Mapping[str, Tool] = {
    **INTERPRETERS,
    **by_name(
        {
            "awk gawk mawk nawk original-awk": awk,
            "sed gsed": sed,
            """
            m4 expect osascript Rscript R julia elixir groovy scala pwsh powershell guile sbcl emacs
            octave ghci irb clojure clj bb janet racket wish gnuplot jshell ipython swipl ocaml erl
            iex escript cscript tcc gjs qjs csi dotnet-script maxima gp sage busted newlisp picolisp
            ipython3 bpython xonsh nu elvish csh tcsh rc es scsh ion
            """: language,
        }
    ),
}
"""All programs that take a program in another language, by name."""
