"""The public surface as text: names and signatures, commands and options, calls of the service.

``python tests/public_surface.py`` writes it to ``tests/public_surface.txt``, so that a change of it
is seen as what it is. What the file holds when a version is published stays until 2.0
(docs/how_to/support.md).
"""

import dataclasses
import inspect
import re
from operator import attrgetter
from pathlib import Path

import influential_bandits as ib

LISTING = Path(__file__).with_suffix(".txt")
MODULES = ("data", "errors", "live", "logs", "optima", "random", "testing")
# What functions of the package return: it has these attributes, but is not made by users.
RESULTS = {
    "Comparison", "Diagnosis", "FleetComparison", "FleetRun", "FleetTicket", "Impact",
    "InfluenceTest", "Plan", "Ticket", "Trajectories", "Trajectory", "Validation",
    "live.LiveDecision", "logs.Partition", "logs.PartitionedLog",
}  # fmt: skip
# Between parts of the package, or by scikit-learn; may change.
NOT_PROMISED = {
    "DenseInteraction.columns", "DenseInteraction.kind", "DenseInteraction.offsets",
    "DenseInteraction.squares", "DenseInteraction.tolerance", "DenseInteraction.vouched",
    "Diagnosis.adjusted", "Diagnosis.sections",
    "Family.is_own", "Fleet.latest_look", "Fleet.parts", "Fleet.row", "Fleet.take_parts",
    "Foresight.effective_half_life", "Foresight.rules", "Foresight.start",
    "Impact.picture", "InfluenceTest.picture", "Instance.linear_term", "Instance.world",
    "LossPrior.sums", "Noise.code_digest", "Noise.require_rounds", "Noise.source",
    "Population.shares_interaction", "RecordedNoise.require_rounds",
    "Scenario.arms_at_start", "Scenario.events", "Scenario.has_times", "Scenario.restricts_arms",
    "SparseInteraction.CHECKED_ARMS", "SparseInteraction.checked", "live.Settings.check",
    "logs.Control.of_checked", "logs.Membership.of_arms", "logs.Membership.of_parts",
    "logs.Partition.common", "logs.Partition.group",
    # What the general model has a setting for and these fix.
    "DriftModel.drift", "DriftModel.fading", "DriftModel.interaction",
    "DriftModel.ridge", "StationaryModel.drift",
    "StationaryModel.fading", "StationaryModel.interaction",
    "StationaryModel.ridge",
}  # fmt: skip
INSIDE = {  # of executions, models and interactions
    "check_settings", "columns", "cut", "fit_to_predict", "kind", "map", "offsets", "outcomes",
    "plays", "room", "row", "run", "set_fit_request", "set_predict_request", "set_score_request",
    "squares", "threads", "vouched",
}  # fmt: skip


def list_surface():
    """All lines of the listing."""
    return [
        "# Names of the package",
        *(line for name in sorted(ib.__all__) for line in describe(name)),
        "",
        *(line for module in MODULES for line in list_module(module)),
        "# Commands",
        *list_commands(),
        "",
        "# Calls of the service",
        *list_calls(),
    ]


def list_module(module):
    names = sorted(getattr(ib, module).__all__)
    yield f"# Names of {module}"
    for name in names:
        yield from describe(f"{module}.{name}")
    yield ""


def describe(name):
    """A name with its signature; of a class also its public methods and properties."""
    value = attrgetter(name)(ib)
    if inspect.ismodule(value) or not callable(value):
        yield f"{name}: {type(value).__name__}"
        return
    if not inspect.isclass(value):
        yield name + signature(value)
        return
    if issubclass(value, BaseException):
        yield f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
        return
    yield f"class {name}{'' if is_result(name) else signature(value)}"
    fields = [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    members = {member: None for member in fields if not member.startswith("_")}
    members |= {m: found for m, found in inspect.getmembers_static(value) if is_shown(value, m)}
    for member, found in sorted(members.items()):
        function = getattr(found, "__func__", found)
        if f"{name}.{member}" not in NOT_PROMISED and member not in INSIDE:
            yield f"    {name}.{member}{signature(function) if callable(function) else ''}"


def is_result(name):
    return name in RESULTS or name.startswith("optima.")


def is_shown(kind, member):
    """Whether a member is public and of this class, or of a base that is no public name itself."""
    home = next(base for base in kind.__mro__ if member in vars(base))
    public = home is not kind and getattr(ib, home.__name__, None) is home
    ours = home.__module__.startswith("influential_bandits")
    return ours and not public and not member.startswith("_")


def signature(function):
    """Names and defaults of the arguments; types may become wider."""
    try:
        found = inspect.signature(getattr(function, "py_func", function))
    except (TypeError, ValueError):
        return "(…)"
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def list_commands():
    """Every command with its arguments, its options and their defaults."""
    import typer.main

    from influential_bandits.cli import app

    def flatten(group, before=""):
        for name, command in group.commands.items():
            inner = flatten(command, f"{name} ") if hasattr(command, "commands") else ()
            yield from inner or [(before + name, command)]

    for name, command in sorted(flatten(typer.main.get_command(app))):
        yield name
        for parameter in command.params:
            words = "/".join([*parameter.opts, *parameter.secondary_opts])
            default = "" if callable(parameter.default) else f" = {parameter.default}"
            kind = "argument " if parameter.param_type_name == "argument" else ""
            yield f"    {kind}{words}{'' if parameter.required else default}"


def list_calls():
    """Every call with its role and what its body may have."""
    from influential_bandits.live.handlers import CALLS

    for call in CALLS:
        fields = getattr(call.body, "__struct_fields__", ())
        body = f" {{{', '.join(fields)}}}" if fields else ""
        yield f"{call.method} {call.path} ({call.role or 'everybody'}){body}"


if __name__ == "__main__":
    LISTING.write_text("\n".join(list_surface()) + "\n", encoding="utf-8")
