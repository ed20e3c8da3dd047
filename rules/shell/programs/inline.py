"""Programs in other languages on a command line (`awk '…'`, `python -c '…'`): proofs that they run
nothing.

Each function returns `None` for a program that is proved to be harmless, otherwise a reason. They accept
few forms, those in everyday use, and refuse all others.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping

from .options import names

_AWK_BEFORE_REGEX = frozenset("(,~!{};&|\n")
_AWK_RUNS = re.compile(r"\bsystem\b|@|\|")
_AWK_WORD = re.compile(r"(?:^|[^\w.])(?:print|printf|return|in|else|do|case|delete|exit|getline)\s*$")
_SED_ADDRESS = re.compile(r"[ \t]*(?:\d+(?:~\d+)?|\$|[+~]\d+)")
_OPEN = re.compile(r"(?<!\\)\[(?:\^?\])?(?:\[:\w+:\]|[^\]])*$")
_SED_PLAIN = frozenset("=dDgGhHlnNpPxqQzF")
_SED_REST_OF_LINE = frozenset("aicrR")
_PERL_SUBSTITUTION = re.compile(
    r"(?:(?:s|tr|y)(?P<d>[/|,#!:])(?:\\.|(?!(?P=d))[^\\])*(?P=d)(?:\\.|(?!(?P=d))[^\\])*(?P=d)[gimsx]*"
    r"|(?:print|next|last)?(?: ?(?:if|unless) )?(?:m?/(?:\\.|[^/\\])*/i?|\$\. ?(?:==|<|>|<=|>=) ?\d+)"
    r"|print \$\d(?:, ?\"(?:\\n|[\w ])*\")? (?:if|unless) /(?:\\.|[^/\\])*/[ims]*"
    r"|s\{(?:\\.|[^{}\\])*\}\{[^{}\\`@$]*\}[gimsx]*"
    r"|print \"(?:[^\"\\@$`{]|\\[nt]|\$[._\d])*\"(?: (?:if|unless) /(?:\\.|[^/\\])*/[ims]*)?"
    r"|print (?:if|unless) /(?:\\.|[^/\\])*/ ?\.\.\.? ?/(?:\\.|[^/\\])*/"
    r"|print|chomp|print \$_|print \$1|print \"(?:[^\"\\@$]|\\[nt])*\"|\$_ ?= ?lc|\$_ ?= ?uc)"
)
_PERL_CODE = re.compile(r"\(\?\??\{|\(\?p|@|\$\{|\$\w+(?:->)?[\[{(]")
_TOKEN = re.compile(
    r"(?P<string>\"[\w ./@:,=+*%!?()<>-]*\"|'[\w ./@:,=+*%!?()<>-]*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<other>[\s\d.(),;+*/%<>=!?:&|-])|(?P<wrong>.)",
    re.DOTALL,
)
_JS_NAMES = names(
    """
    console log error process version versions node v8 platform arch cwd exit argv env JSON parse
    stringify require fs path os url readFileSync readdirSync statSync writeFileSync map filter
    forEach size existsSync length Object keys values entries Math round floor ceil random max min
    Date now toISOString getTime parseInt parseFloat Number String Boolean true false null undefined
    const let var if else for of typeof toString toUpperCase toLowerCase trim split join slice
    includes startsWith endsWith dependencies devDependencies scripts name main resolve dirname
    fetch then catch text json status ok headers
    basename memoryUsage uptime hostname cpus freemem totalmem utf8 default isArray sort reverse
    """
)
_JS_BINDS = re.compile(r"\b(?:const|let|var)\s+([A-Za-z_]\w*)")
_JS_PARAMETER = re.compile(r"(?<![\w.$])([A-Za-z_]\w*)\s*=>")
_JS_COMPUTED = re.compile(r"""[\w)\]"'}]\s*\[(?!\d+\])|\]\s*:|\[\s*["'][^\]]*\+""")
_JS_REGEX = re.compile(r"(?:^|[(,=\[!&|?{};>\n]|:(?!//)|\breturn\b)\s*/|/[*]|(?<!:)//")
"""A regular expression or a comment, which may contain quotes."""
_JS_TEXT = re.compile(r"""'[^']*'|"[^"]*\"""")
_NO_BRACKETS = str.maketrans("[]{}", "    ")
_JS_REACHES = names(
    """
    constructor prototype eval Function global globalThis module mainModule binding dlopen call
    apply bind child_process import this window self Reflect Proxy vm worker_threads kill __proto__
    exports
    """
)
_JS_MODULES = re.compile(
    r"require\s*\(\s*(?![\"'](?:fs|path|os|url|\./[\w./-]*\.json|[\w@/.-]+/package\.json)[\"'])"
)
_RUBY_NAMES = names(
    """
    puts p print RUBY_VERSION Time now to_s to_i upcase downcase length size
    """
)
_PHP_NAMES = names(
    """
    echo print phpversion PHP_VERSION PHP_OS PHP_EOL json_encode strlen date time php_sapi_name true
    false
    """
)
_PERL_NAMES = names(
    """
    print printf length uc lc join time localtime scalar sprintf
    """
)
_PYTHON_MODULES = names(
    """
    __future__ sys json re math datetime time collections itertools functools string random secrets
    hashlib base64 binascii textwrap statistics decimal fractions uuid unicodedata struct csv pprint
    pathlib tomllib zlib glob fnmatch calendar heapq bisect html locale urllib.parse io difflib
    importlib.metadata numbers colorsys ipaddress keyword stat errno zoneinfo
    """
)
_PYTHON_BUILTINS = names(
    """
    print len range str int float bool list dict set tuple sorted sum min max abs round enumerate
    zip map filter repr isinstance type open any all ord chr hex bin oct reversed next iter bytes
    bytearray divmod pow format hash id callable frozenset complex slice input Exception ValueError
    KeyError TypeError IndexError OSError FileNotFoundError AssertionError RuntimeError SystemExit
    StopIteration exit quit ImportError ModuleNotFoundError AttributeError
    """
)
_PYTHON_ATTRIBUTES = names(
    """
    modules settrace setprofile meta_path path_hooks path_importer_cache breakpointhook displayhook
    excepthook unraisablehook os subprocess builtins codecs importlib load_module loads_module
    EntryPoint entry_points load get_loader format_map gi_frame cr_frame f_globals f_builtins f_back
    tb_frame gi_code func_globals callstats system popen exec eval compile run call check_output
    check_call unlink rmdir chmod symlink_to hardlink_to link_to getattr setattr delattr vars
    globals locals breakpoint bltns typing dataclasses enum inspect ast copyreg singledispatch
    singledispatchmethod register import_module reload util machinery getoutput getstatusoutput
    get_type_hints ForwardRef pickle threading multiprocessing operator types reduce partial
    partialmethod methodcaller attrgetter namedtuple make_dataclass field_size_limit
    """
)
_PYTHON_READS: Mapping[str, frozenset[str]] = {
    "os": names(
        """
        getcwd environ path cpu_count listdir sep name linesep getpid getppid uname getenv pathsep
        curdir stat getloadavg
        """
    ),
    "ast": names("parse literal_eval dump walk unparse Name Call FunctionDef ClassDef"),
    "yaml": names("safe_load safe_load_all safe_dump YAMLError"),
}
"""Names in other modules that run no program."""
_PYTHON_SHOWING = names("print repr str len bool")
_PYTHON_HOSTS = names(
    """
    IPython ipdb pudb bpython ptpython pexpect sh fabric invoke plumbum delegator rpyc setuptools
    """
)
"""Modules outside Python's standard library that start or read programs."""
_PYTHON_SHOWN = frozenset({"__version__", "__file__", "__name__", "__doc__", "__path__"})


def awk(program: str) -> str | None:
    """Accept an awk program without `system`, pipes, and functions called by a computed name."""
    if "\\\n" in program:
        return _unshown("awk")
    code = _awk_without_texts(program)
    if code is None or _AWK_RUNS.search(code.replace("||", " ")):
        return _unshown("awk")
    return None


def _awk_without_texts(program: str) -> str | None:
    """The program without strings, regular expressions and comments; `None` if one does not end."""
    parts: list[str] = []
    at, before = 0, "\n"
    while at < len(program):
        character = program[at]
        if character == '"' or (character == "/" and before in _AWK_BEFORE_REGEX):
            end = _closing(program, at + 1, character)
            if end is None:
                return None
            at, before = end + 1, character
            continue
        if character == "/" and _AWK_WORD.search(program[:at]):
            return None
        if character == "#":
            line = program.find("\n", at)
            at = len(program) if line < 0 else line
            continue
        parts.append(character)
        if character not in " \t":
            before = character
        at += 1
    return "".join(parts)


def _closing(text: str, at: int, mark: str) -> int | None:
    """Position of the next `mark` without a backslash; for a `/` also outside brackets."""
    brackets = False
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 2
            continue
        if character == "\n":
            return None
        if mark == "/" and character == "[" and not brackets:
            brackets = True
            at += 2 if text[at + 1 : at + 2] in {"]", "^"} else 1
            continue
        if character == "]":
            brackets = False
        elif character == mark and not brackets:
            return at
        at += 1
    return None


def sed(script: str) -> str | None:
    """Accept a sed script without the command `e` and the flag `e` of `s`."""
    at = 0
    while at < len(script):
        if script[at] in " \t\n;{}!,":
            at += 1
            continue
        if address := _SED_ADDRESS.match(script, at):
            at = address.end()
            continue
        command = script[at]
        if command in "/\\":
            mark = script[at + 1 : at + 2] if command == "\\" else "/"
            end = _delimited(script, at + (2 if command == "\\" else 1), mark)
            if end is None:
                return _unshown("sed")
            at = end
            while script[at : at + 1] in {"I", "M"}:
                at += 1
        elif command in "sy":
            mark = script[at + 1 : at + 2]
            middle = _delimited(script, at + 2, mark)
            end = None if middle is None else _delimited(script, middle, mark)
            if end is None or not mark or mark in "\\\n":
                return _unshown("sed")
            at = end
            while at < len(script) and script[at] in "gpiIM0123456789":
                at += 1
            if script[at : at + 1] not in {"", ";", "\n", "}", " ", "\t"}:
                return _unshown("sed")
        elif command in "btT:":
            # Depending on the version of sed, a label ends at a semicolon or at the end of the line.
            while at < len(script) and script[at] not in ";\n}":
                at += 1
        elif command in _SED_REST_OF_LINE or command == "#":
            at = _line_end(script, at)
        elif command in _SED_PLAIN:
            at += 1
            while at < len(script) and script[at] in " \t0123456789":
                at += 1
            if at < len(script) and script[at] not in ";\n}":
                return _unshown("sed")
        else:
            return _unshown("sed")
    return None


def _delimited(text: str, at: int, mark: str) -> int | None:
    """Position after the next `mark`; `None` if that may be within brackets."""
    start = at
    while mark and at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == mark:
            return None if _OPEN.search(text[start:at]) else at + 1
        else:
            at += 1
    return None


def _line_end(text: str, at: int) -> int:
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        if text[end - 1] != "\\":
            return end
        at = end + 1


def perl(program: str) -> str | None:
    """Accept substitutions and matches on lines, and prints of plain values."""
    program = re.sub(r"\$F\[-?\d+\]", "$1", program)
    statements = [part.strip() for part in program.split(";")]
    if not _PERL_CODE.search(program):
        if all(not part or _PERL_SUBSTITUTION.fullmatch(part) for part in (*statements,)):
            return None
        if _PERL_SUBSTITUTION.fullmatch(program.strip()):
            return None
    return _tokens(program, _PERL_NAMES, "perl")


def node(program: str) -> str | None:
    """Accept JavaScript of known names, whose modules read files and start no processes."""
    if any(found.search(program) for found in (_JS_MODULES, _JS_COMPUTED, _JS_REGEX)):
        return _unshown("node")
    if any(text.strip("'\"") in _JS_REACHES for text in _JS_TEXT.findall(program)):
        return _unshown("node")
    bound = frozenset((*_JS_BINDS.findall(program), *_JS_PARAMETER.findall(program)))
    # The remaining brackets and braces are lists, objects, blocks and indices.
    program = program.translate(_NO_BRACKETS)
    if any(name in _JS_REACHES or re.search(rf"[.?]\s*{name}\b", program) for name in bound):
        return _unshown("node")
    return _tokens(program, _JS_NAMES | bound, "node")


def ruby(program: str) -> str | None:
    """Accept Ruby that prints plain values."""
    return _tokens(program, _RUBY_NAMES, "ruby")


def php(program: str) -> str | None:
    """Accept PHP that prints plain values."""
    return _tokens(program, _PHP_NAMES, "php")


def _tokens(program: str, names: frozenset[str], language: str) -> str | None:
    for token in _TOKEN.finditer(program):
        if token["wrong"] or (token["name"] and token["name"] not in names):
            return _unshown(language)
    return None


def python(program: str) -> str | None:
    """Accept Python that imports modules without processes, and of all others only shows the version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _unshown("python")
    return None if _Python().harmless(tree) else _unshown("python")


def _imports_what_it_writes(tree: ast.Module) -> bool:
    """Return whether a module is imported after something that may write it."""
    writes = False
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            writes = writes or any(
                (isinstance(node, ast.Name) and node.id == "open")
                or (isinstance(node, ast.Attribute) and node.attr in _PYTHON_WRITING)
                for node in ast.walk(statement)
            )
            if (
                any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(statement))
                and writes
            ):
                return True
        elif writes:
            return True
    return False


_PYTHON_WRITING = names("open write_text write_bytes FileIO rename replace stdout")


class _Python:
    """Names that a program binds, and whether everything that it does with them is known."""

    def __init__(self) -> None:
        self._bound: set[str] = set()
        self._foreign: set[str] = set()
        self._hosts: set[str] = set()

    def harmless(self, tree: ast.Module) -> bool:
        nodes = list(ast.walk(tree))
        if not all(self._bind(node) for node in nodes):
            return False
        if (self._bound | self._foreign) & _PYTHON_BUILTINS or _imports_what_it_writes(tree):
            return False
        used = {name.id for name in nodes if isinstance(name, ast.Name)}
        if self._foreign & self._bound or (self._foreign - _PYTHON_READS.keys() and "open" in used):
            return False
        displayed = {id(name) for node in nodes for name in self._shown(node)}
        return all(self._allowed(node, displayed) for node in nodes)

    def _bind(self, node: ast.AST) -> bool:
        """Record what a node binds; false if that is an import of something that runs programs."""
        match node:
            case ast.Import(names=names):
                for name in names:
                    bound = name.asname or name.name.partition(".")[0]
                    (self._bound if name.name in _PYTHON_MODULES else self._foreign).add(bound)
                    package = name.name.partition(".")[0]
                    if package in sys.stdlib_module_names or package in _PYTHON_HOSTS:
                        self._hosts.add(bound)
                    if name.asname in _PYTHON_READS or (package in _PYTHON_READS and name.asname):
                        return False
                return True
            case ast.ImportFrom(module=module, names=names, level=0) if module in _PYTHON_MODULES:
                imported = [name.name for name in names]
                if any(
                    name in _PYTHON_ATTRIBUTES or name.startswith("_") or name == "*" for name in imported
                ):
                    return False
                self._bound.update(name.asname or name.name for name in names)
                return True
            case ast.ImportFrom():
                self._foreign.update(name.asname or name.name for name in node.names)
                package = (node.module or "").partition(".")[0]
                is_plain = package not in sys.stdlib_module_names and package not in _PYTHON_HOSTS
                return is_plain and all(
                    name.name != "*" and name.asname not in _PYTHON_READS for name in node.names
                )
            case ast.FunctionDef(name=name, args=args):
                self._bound.add(name)
                self._bound.update(arg.arg for arg in (*args.args, *args.kwonlyargs, *args.posonlyargs))
                return not node.decorator_list
            case ast.Lambda(args=args):
                self._bound.update(arg.arg for arg in args.args)
                return True
            case ast.Name(id=name, ctx=ast.Store()):
                self._bound.add(name)
                return name not in _PYTHON_BUILTINS and not name.startswith("__")
            case ast.ExceptHandler(name=str(name)):
                self._bound.add(name)
                return True
            case _:
                return True

    def _shown(self, node: ast.AST) -> list[ast.AST]:
        """Foreign names in a node that are only read."""
        match node:
            case ast.Attribute(value=ast.Name() as name, attr=attribute) if (
                attribute in _PYTHON_SHOWN or attribute in _PYTHON_READS.get(name.id, ())
            ):
                return [name]
            case ast.Call(func=ast.Name(id=shown), args=args) if shown in _PYTHON_SHOWING:
                return [name for arg in args for name in self._looked_at(arg)]
            case _:
                return []

    def _looked_at(self, node: ast.AST) -> list[ast.AST]:
        """The foreign name from whose attributes, and calls without arguments, a value is derived."""
        called = False
        while True:
            match node:
                case ast.Attribute(value=inner):
                    node = inner
                case ast.Call(func=inner, args=[], keywords=[]):
                    node, called = inner, True
                case ast.Name(id=name) if called and name in self._hosts:
                    return []
                case ast.Name():
                    return [node]
                case _:
                    return []

    def _allowed(self, node: ast.AST, displayed: set[int]) -> bool:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                if name in self._foreign:
                    return id(node) in displayed
                return name in self._bound or name in _PYTHON_BUILTINS
            case ast.Attribute(attr=attribute):
                if attribute in _PYTHON_SHOWN:
                    return True
                runs = attribute.lower().startswith(("exec", "spawn", "fork", "popen", "posix", "_"))
                return not runs and attribute not in _PYTHON_ATTRIBUTES - {"load"}
            case ast.ClassDef() | ast.AsyncFunctionDef() | ast.Global() | ast.Nonlocal() | ast.Delete():
                return False
            case ast.Attribute() | ast.Subscript() if isinstance(node.ctx, ast.Store):
                return isinstance(node, ast.Subscript)
            case _:
                return True


def written_by_awk(program: str) -> Iterator[str]:
    """Files to which an awk program that was proved harmless prints; an empty text means any file."""
    if ">" not in program:
        return
    names = [found[1] for found in _AWK_OUTPUT.finditer(program)]
    yield from names
    # A `>` outside texts may be a comparison, or a redirection to a computed name.
    code = _AWK_OUTPUT.sub(" ", program)
    if re.search(r"print[^;}\n]*>", _awk_without_texts(code) or code):
        yield ""


def written_by_python(program: str) -> Iterator[str]:
    """Files that a Python program that was proved harmless writes; an empty text means any file."""
    if not _PYTHON_WRITES.search(program):
        return
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Call(
                func=ast.Name(id="open"), args=[ast.Constant(value=str(path)), *arguments], keywords=more
            ):
                mode = (
                    arguments[0]
                    if arguments
                    else next((word.value for word in more if word.arg == "mode"), None)
                )
                if mode is None and all(word.arg for word in more):
                    continue
                if not (isinstance(mode, ast.Constant) and mode.value in _READING_MODES):
                    yield path
            case ast.Call(func=ast.Name(id="open"), args=[first, *arguments], keywords=more):
                has_mode = any(word.arg in {None, "mode"} for word in more)
                if arguments or has_mode or isinstance(first, ast.Starred):
                    yield ""
            case ast.Call(func=ast.Name(id="open")):
                yield ""
            case ast.Attribute(
                value=ast.Call(args=[ast.Constant(value=str(path))]),
                attr="write_text" | "write_bytes" | "open",
            ):
                yield path
            case ast.Name(id="open"):
                # It may be called elsewhere than where it is named.
                pass
            case ast.Attribute(
                attr="write_text" | "write_bytes" | "open" | "FileIO" | "fdopen" | "rename"
            ):
                yield ""
            case ast.Call(func=ast.Attribute(attr="replace"), args=[_]):
                yield ""
            case _:
                pass
    opened = sum(isinstance(n, ast.Name) and n.id == "open" for n in ast.walk(ast.parse(program)))
    called = sum(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "open"
        for n in ast.walk(ast.parse(program))
    )
    if opened != called:
        yield ""


def written_by_node(program: str) -> Iterator[str]:
    """Files that a JavaScript program that was proved harmless writes; an empty text means any file."""
    count = program.count("writeFileSync")
    names = [found[1] for found in _JS_OUTPUT.finditer(program)]
    yield from names
    if len(names) != count:
        yield ""


_PYTHON_WRITES = re.compile("open|write|rename|replace|FileIO")
_READING_MODES = frozenset({"r", "rb", "rt", "br"})
_AWK_OUTPUT = re.compile(r'>>?\s*"([^"\\]*)"(?=\s*(?:[;}\n]|$))')
_JS_OUTPUT = re.compile(r"writeFileSync\s*\(\s*[\"']([^\"'\\]*)[\"']\s*,")


def _unshown(language: str) -> str:
    return f"what the {language} program in it runs is not known"


JUDGES: Mapping[str, Callable[[str], str | None]] = {
    "awk": awk,
    "sed": sed,
    "perl": perl,
    "python": python,
    "node": node,
    "ruby": ruby,
    "php": php,
}

WRITTEN: Mapping[str, Callable[[str], Iterator[str]]] = {
    "awk": written_by_awk,
    "python": written_by_python,
    "node": written_by_node,
}
"""Functions that find the files written by programs that `JUDGES` accepted."""
