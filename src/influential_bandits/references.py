"""From ``module:name`` and ``file.py:name``, as on a command line, to what the user wrote there.

Objects of a module are pickled by its name, so that workers need the module too. Objects of a file
take its text along: a worker that has never seen the file runs the same text.
"""

from __future__ import annotations

import copyreg
import hashlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput, MissingFile

# The first colon after which a name follows, perhaps with a call: C:\x.py:Class(name="a:b").
REFERENCE = re.compile(
    r"\s*(?P<home>[^()]+?)\s*:\s*(?P<rest>[A-Za-z_]\w*\s*(\(.*\))?)\s*", re.DOTALL
)


class Source(NamedTuple):
    """A file of the user's, as it was when it was read."""

    module: str  # the name of its module
    path: str
    text: str


def split_reference(text: str) -> tuple[str, str] | None:
    """Return the module or file and what follows the colon; None for a text without a colon.

    Examples
    --------
    >>> split_reference("mine.py:Greedy(epsilon=0.1)")
    ('mine.py', 'Greedy(epsilon=0.1)')
    >>> split_reference("LCB") is None
    True
    """
    matched = REFERENCE.fullmatch(text)
    return None if matched is None else (matched["home"], matched["rest"].strip())


def find_object(home: str, name: str) -> Any:
    """Return what a module, or a file, has under a name, or say why that cannot be had."""
    module = _module_of_file(home) if _is_file(home) else _module_of_name(home)
    try:
        return getattr(module, name)
    except AttributeError:
        own = [
            key
            for key, value in vars(module).items()
            if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
        there = f"; there {'is' if len(own) == 1 else 'are'} {', '.join(own)}" if own else ""
        raise InvalidInput(f"{home} has no {name!r}{there:.160}") from None


def subclasses(base: type[Any]) -> Iterator[Any]:
    """Yield all classes below one that have been imported."""
    for code in base.__subclasses__():
        yield code
        yield from subclasses(code)


def name_class(code: type) -> str:
    """Return what files call a class: plainly one of the package, others ``module:Class``."""
    if code.__module__.startswith("influential_bandits."):
        return code.__name__
    return f"{code.__module__}:{code.__qualname__}"


def find_class(name: str, base: type, known: Iterable[type], hint: str) -> Any:
    """Return the class that a file names; the module of a user's is imported if it has not been.

    ``known`` are those that have been, and ``hint`` says what else the user can do.
    """
    named = {name_class(code): code for code in known}
    if name in named:
        return named[name]
    kind = base.__name__.lower()
    module, colon, inside = name.partition(":")
    if not colon:
        raise InvalidInput(
            f"there is no {kind} {abbreviate(name)}; there are {', '.join(named):.200}"
        )
    if module == "__main__" or not inside.isidentifier():
        raise InvalidInput(f"{name} is of a script, a notebook or a function: {hint}")
    if not all(part.isidentifier() for part in module.split(".")):
        raise InvalidInput(f"{abbreviate(name)} names no {kind}: expected module:Class; or {hint}")
    try:
        found = getattr(import_module(module), inside, None)
    except Exception as error:
        raise InvalidInput(
            f"the module of {name} cannot be imported ({type(error).__name__}: {error}): let "
            f"Python find it, or {hint}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InvalidInput(f"{name} is no {kind} but {abbreviate(found)}; {hint}")
    return found


def _is_file(home: str) -> bool:
    return home.endswith(".py") or "/" in home or "\\" in home


def _module_of_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidInput(f"{name!r} is neither a module, as in package.module, nor a .py file")
    if name in sys.modules:
        return sys.modules[name]
    _look_in(Path.cwd())
    try:
        found = find_spec(name)
    except (ImportError, ValueError):  # of a package that is not there, or is a mere module
        found = None
    if found is None:
        raise InvalidInput(
            f"there is no module {name!r}: it must be installed, or be in the folder {Path.cwd()}; "
            f"or name a file, as in {name.rpartition('.')[2]}.py"
        )
    return _run(name, found.origin, lambda: import_module(name))


def _module_of_file(home: str) -> ModuleType:
    path = Path(home).expanduser().absolute()
    if path.suffix != ".py":
        raise InvalidInput(f"{home} is no Python file: its name should end in .py")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MissingFile(f"cannot read {home}: {error.strerror}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"cannot read {home}: {why}") from None
    for source, module in _LOADED.items():
        if (source.path, source.text) == (str(path), text):
            return module
    source = Source(_free_name(path, text), str(path), text)
    _look_in(path.parent)
    return _run(home, str(path), lambda: _module_of_source(source))


def _free_name(path: Path, text: str) -> str:
    """Return the file's own name, so that a saved run is found again after an import of it."""
    try:
        taken = path.stem in sys.modules or find_spec(path.stem) is not None
        if taken and path.stem not in sys.modules:
            taken = not path.samefile(str(find_spec(path.stem).origin))  # type: ignore[union-attr]
    except (ImportError, ValueError, OSError):
        taken = True
    if path.stem.isidentifier() and not taken:
        return path.stem
    return f"{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{_digest(text)}"


def _look_in(folder: Path) -> None:
    """Let what lies in a folder be imported; last, so that it hides nothing that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _run(home: str, path: str | None, load: Callable[[], ModuleType]) -> ModuleType:
    """Run a module of the user's, and say where it failed if it does."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        where = f" in line {lines[-1]}" if lines and not isinstance(error, SyntaxError) else ""
        what = str(error).partition("\n")[0]
        raise InvalidInput(
            f"{home} cannot be imported{where}: {type(error).__name__}: {what:.160}"
        ) from error


_LOADED: dict[Source, ModuleType] = {}  # files of this process


def _module_of_source(source: Source) -> ModuleType:
    """Return the module of a file's text; run once."""
    if source in _LOADED:
        return _LOADED[source]
    code: CodeType = compile(source.text, source.path, "exec")
    module = ModuleType(source.module)
    module.__file__ = source.path
    before = sys.modules.get(source.module)
    sys.modules[source.module] = module  # dataclasses look their module up
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[source.module]
        if before is not None:
            sys.modules[source.module] = before
        raise
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == source.module:
            copyreg.pickle(value, partial(_reduce, source))
    _LOADED[source] = module
    return module


def _reduce(source: Source, value: Any) -> tuple[Any, ...]:
    """Pickle an object of a file together with the file."""
    _, _, *state = value.__reduce_ex__(2)
    return _make_unfilled, (source, type(value).__qualname__), *state


def _make_unfilled(source: Source, name: str) -> Any:
    """Return an object of a file before its state is set, wherever it is unpickled."""
    code = getattr(_module_of_source(source), name)
    return code.__new__(code)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
