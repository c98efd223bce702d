"""What overrides a documented method needs no docstring; every other public method has one."""

import importlib
import inspect
import pkgutil

import influential_bandits as ib


def is_explained(code, name):
    """Whether a class or one above has a docstring or, for attributes, a type of this name."""
    return any(
        getattr(vars(base).get(name), "__doc__", None) or name in inspect.get_annotations(base)
        for base in code.__mro__
    )


def test_public_methods_are_documented_here_or_where_they_are_declared():
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(ib.__path__, "influential_bandits.")
        if not module.name.endswith("__main__")
    ]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    silent = [
        f"{code.__module__}.{code.__qualname__}.{name}"
        for code in classes
        if not code.__name__.startswith("_")
        for name, member in vars(code).items()
        if not name.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property))
        and not is_explained(code, name)
    ]
    assert len(classes) > 100, "the search finds nothing at all"
    assert sorted(silent) == []
