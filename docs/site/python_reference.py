"""Write the pages of the Python reference: every public name, grouped by what it is for."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import influential_bandits as ib
from docs.site import docstring_markup

# Where a name of the package's top is defined, and the page that shows it.
GROUPS = {
    "world": ("Instances and worlds", "Problems, noise, populations, environments."),
    "policies": ("Policies", "What decides: policies, agents, fleets, oracles."),
    "simulation": ("Simulation", "Many runs at once, and what they return."),
    "optima": ("Benchmarks and regret", "The best there is, with proof, and regret against it."),
    "learning": ("Learning from logs", "Models, the test of influence, plans."),
    "logs": ("Logs", "Reading events from files, tables and folders."),
    "studies": ("Comparisons", "Policies compared on families of instances."),
    "execution": ("Where work is done", "Threads, clusters, graphics processors."),
    "data": ("Data sets", "MovieLens, and logs whose truth is known."),
    "live": ("The service", "Decisions over HTTP: server and client."),
    "random": ("Random numbers", "For policies and noises of your own."),
    "testing": ("Testing", "Checks for policies of your own."),
    "errors": ("Errors", "What is raised, and when."),
}
# Small packages whose names are shown with those of another.
SHOWN_WITH = {"gpu": "execution", "summaries": "optima"}
# What the contract asks of every policy and noise is described once, with the base class.
BASES = (ib.Policy, ib.Noise)


def group_names() -> dict[str, list[str]]:
    """Return the public names of each page, dotted below ``influential_bandits``."""
    stub = Path(ib.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    modules = []
    for node in ast.parse(stub).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if node.module is None:
                modules.append(alias.name)
            else:
                home = node.module.split(".")[0]
                groups[SHOWN_WITH.get(home, home)].append(alias.name)
    on_top = {name for names in groups.values() for name in names}
    for module in modules:
        names = import_module(f"influential_bandits.{module}").__all__
        groups[module] += [f"{module}.{name}" for name in names if name not in on_top]
    return groups


def find_value(name: str) -> object:
    """Return what a dotted public name stands for."""
    value: object = ib
    for part in name.split("."):
        value = getattr(value, part)
    return getattr(value, "py_func", value)


def write_directive(name: str) -> list[str]:
    """Return the lines that have one name documented."""
    value = find_value(name)
    lines = [f"::: influential_bandits.{name}"]
    if inspect.isclass(value) and issubclass(value, BASES) and value not in BASES:
        lines += ["    options:", "      members: false"]
    return [*lines, ""]


def write_pages(folder: Path) -> list[str]:
    """Write a page for each group, and one that lists all; return the names that are documented."""
    folder.mkdir(parents=True, exist_ok=True)
    listing = [
        "# Python reference",
        "",
        "Every public name, with its example; `ib` stands for `influential_bandits`.",
        "",
    ]
    groups = group_names()
    documented = [name for names in groups.values() for name in names]
    for group, names in groups.items():
        title, summary = GROUPS[group]
        rows = []
        for name in sorted(names, key=str.lower):
            first = (inspect.getdoc(find_value(name)) or "").splitlines()[0].replace("|", "\\|")
            summary_line = docstring_markup.convert(first, frozenset(documented))
            rows.append(f"| [`{name}`][influential_bandits.{name}] | {summary_line} |")
        table = ["| name | what it is |", "|---|---|", *rows, ""]
        page = [f"# {title}", "", summary, "", *table]
        for name in sorted(names, key=str.lower):
            page += write_directive(name)
        (folder / f"{group}.md").write_text("\n".join(page), encoding="utf-8")
        listing += [f"## [{title}]({group}.md)", "", *table]
    (folder / "index.md").write_text("\n".join(listing), encoding="utf-8")
    return documented
