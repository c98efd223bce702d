"""Write the page of the command line, from what ``--help`` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from influential_bandits.cli import app

STATUS = """\
Every command has `--help`. Status 2 and one sentence say that what was asked for cannot be done;
status 1, that some of it was done, and kept."""


def write_page(path: Path) -> list[str]:
    """Write every command with its options; return the names of the commands."""
    program: Any = typer.main.get_command(app)
    lines = ["# Command line", "", *paragraphs(program.help), STATUS, ""]
    lines += ["| command | what it does |", "|---|---|"]
    commands = dict(list_commands(program))
    for name, command in commands.items():
        anchor = name.replace(" ", "-")
        lines.append(f"| [`{name}`](#{anchor}) | {escape(first_line(command.help))} |")
    lines.append("")
    for name, command in commands.items():
        lines += describe_command(name, command)
    path.write_text("\n".join(lines), encoding="utf-8")
    return list(commands)


def list_commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group, and of the groups in it, with their names in full."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def describe_command(name: str, command: Any) -> list[str]:
    """Return the section of one command."""
    context = command.make_context(name, [], resilient_parsing=True)
    arguments, options = [], []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            where = arguments if parameter.param_type_name == "argument" else options
            where.append(f"| `{record[0]}` | {escape(record[1])} |")
    names = [p.name.upper() for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["influential-bandits", name, *names, "[OPTIONS]"])
    lines = [f"## {name}", "", *paragraphs(command.help), "```text", usage, "```", ""]
    if command.epilog:
        examples = re.sub(r"^Examples?: ", "", command.epilog).split("; ")
        lines += ["```bash", *examples, "```", ""]
    for title, rows in (("argument", arguments), ("option", options)):
        if rows:
            lines += [f"| {title} | |", "|---|---|", *rows, ""]
    return lines


def paragraphs(text: str | None) -> list[str]:
    """Return a help text as lines of Markdown."""
    return [line.strip() for line in (text or "").splitlines()] + [""]


def first_line(text: str | None) -> str:
    """Return what a table of commands shows of one."""
    return (text or "").strip().splitlines()[0]


def escape(text: str) -> str:
    """Keep a text within its cell of a table, and what Markdown would take for markup."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
