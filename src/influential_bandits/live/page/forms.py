"""What an admin can do from the page: change settings and arms, go back to a model, make keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live.keys import ROLES, Visitor, make_key
from influential_bandits.live.page.words import describe_memory, describe_policy, describe_settings
from influential_bandits.live.requests import AddArm, ChangeSettings, Refused
from influential_bandits.live.settings import require_label
from influential_bandits.live.store.sql import ExperimentRow, StoreError

if TYPE_CHECKING:
    from influential_bandits.live.page.page import Page

__all__ = [
    "activate_model",
    "add_arm",
    "add_key",
    "change_settings",
    "drop_key",
    "render_keys",
    "render_settings",
    "retire_arm",
]

NUMBERS = ("control_share", "explore")
OPTIONAL_NUMBERS = ("window_hours", "missing_loss", "best_rating")
DONE = {
    "settings": "The settings were changed; they hold from now on.",
    "arm": "The arm was added. It can be chosen from now on.",
    "retired": "The arm was retired. It will not be chosen again; its past still counts.",
    "model": "The model was changed. Decisions are made by it from now on.",
    "dropped": "The key was dropped. Nobody can use it any more.",
}


def _path(row: ExperimentRow) -> str:
    return f"/experiments/{quote(row.name, safe='')}/settings"


async def render_settings(
    page: Page,
    request: HttpRequest,
    row: ExperimentRow,
    error: Exception | None = None,
    given: dict[str, str] | None = None,
) -> Response:
    """Show settings, with what was typed in where it could not be taken."""
    described = await page.describe(row)
    settings = described["settings"]
    shared = settings["state"] == "shared"
    status = 200 if error is None else getattr(error, "status", 422)
    words = describe_settings(settings)
    message, wrong = "" if error is None else str(error), ""
    for setting in words:
        if message.startswith(f"{setting.name} "):  # say it by the name that the form has
            message, wrong = f"{setting.label}{message[len(setting.name) :]}", setting.name
    return page.render(
        request,
        "settings.html.j2",
        status,
        name=row.name,
        path=f"/experiments/{quote(row.name, safe='')}",
        described=described,
        settings=settings,
        words=words,
        wrong=wrong,
        policy=describe_policy(settings["policy"], shared=shared),
        control=describe_policy(settings["control"]),
        memory=describe_memory(settings),
        models=[
            (model["version"], describe_policy(model["policy"], shared=shared))
            for model in described["models"]
        ],
        given=given or {},
        error=message,
        done=DONE.get(request.query_params.get("done", ""), ""),
    )


async def _change(
    page: Page, request: HttpRequest, form: dict[str, str], act: Any, done: str
) -> Response:
    """Have the writer change an experiment; show the form again if it refuses."""
    row = page.find(request)
    try:
        await page.ask(row.name, act)
    except StoreError:
        raise
    except InfluentialBanditsError as error:
        return await render_settings(page, request, row, error, form)
    page.forget(row.name)
    return RedirectResponse(f"{_path(row)}?done={done}", 303)


async def change_settings(page: Page, request: HttpRequest, form: dict[str, str]) -> Response:
    """Change settings."""
    row = page.find(request)
    try:
        change = read_settings(form)
    except InvalidInput as error:
        return await render_settings(page, request, row, error, form)
    return await _change(page, request, form, lambda work, at: work.change(change, at), "settings")


def read_settings(form: dict[str, str]) -> ChangeSettings:
    """Return the change that a form asks for; empty fields of numbers that may be missing are None.

    Examples
    --------
    >>> read_settings({"control_share": "0.5", "window_hours": ""})
    ChangeSettings(control_share=0.5, explore=UNSET, window_hours=None, missing_loss=UNSET,
                   best_rating=UNSET, mode=UNSET)
    """
    values: dict[str, Any] = {}
    for name in (*NUMBERS, *OPTIONAL_NUMBERS):
        text = form.get(name)
        if text is None:
            continue
        if not text.strip() and name in OPTIONAL_NUMBERS:
            values[name] = None
            continue
        try:
            values[name] = float(text.replace("−", "-"))
        except ValueError:
            raise InvalidInput(f"{name} must be a number, got {text!r:.40}") from None
    if "mode" in form:
        values["mode"] = form["mode"]
    try:
        return msgspec.convert(values, ChangeSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from None


async def add_arm(page: Page, request: HttpRequest, form: dict[str, str]) -> Response:
    """Add an arm."""
    arm = AddArm(name=form.get("arm", ""))
    return await _change(page, request, form, lambda work, at: work.add_arm(arm, at), "arm")


async def retire_arm(page: Page, request: HttpRequest, form: dict[str, str]) -> Response:
    """Retire an arm; the form has its number, since browsers change line ends in names."""
    names = (await page.describe(page.find(request)))["arms"]
    text = form.get("arm_number", "")
    if not text.isdecimal() or len(text) > 9 or int(text) >= len(names):
        raise Refused(404, "unknown_arm", "there is no such arm")
    arm = names[int(text)]
    return await _change(page, request, form, lambda work, at: work.retire_arm(arm, at), "retired")


async def activate_model(page: Page, request: HttpRequest, form: dict[str, str]) -> Response:
    """Decide by another model, or by an earlier one."""
    text = form.get("version", "")
    if not text.isdecimal() or len(text) > 9:
        raise Refused(422, "invalid", "a model has a number")
    version = int(text)
    return await _change(
        page, request, form, lambda work, at: work.activate_model(version, at), "model"
    )


# Keys.


def render_keys(
    page: Page, request: HttpRequest, error: str = "", made: tuple[str, str] | None = None
) -> Response:
    """Show the keys that the visitor may see; a new one is shown this once."""
    visitor: Visitor = request.scope["visitor"]
    rows = page.rows(request)
    names = {row.id: row.name for row in rows}
    keys = [
        row
        for row in page.read(lambda store: store.keys())
        if visitor.experiment in (None, row.experiment)
    ]
    return page.render(
        request,
        "keys.html.j2",
        422 if error else 200,
        keys=keys,
        names=names,
        roles=ROLES,
        own=visitor.digest,
        bound=visitor.experiment,
        made=made,
        error=error,
        done=DONE.get(request.query_params.get("done", ""), ""),
    )


async def add_key(page: Page, request: HttpRequest, form: dict[str, str]) -> Response:
    """Make a key, and show it once."""
    visitor: Visitor = request.scope["visitor"]
    number = visitor.experiment
    label, role, experiment = form.get("label", ""), form.get("role", ""), form.get("experiment")
    if role not in ROLES:
        return render_keys(page, request, f"role must be one of {', '.join(ROLES)}")
    if number is None and experiment:
        chosen = [row.id for row in page.rows(request) if str(row.id) == experiment]
        if not chosen:
            return render_keys(page, request, "there is no such experiment")
        number = chosen[0]
    try:
        require_label("the label of a key", label)
    except InvalidInput as error:
        return render_keys(page, request, str(error))
    key, row = make_key(label, role, number, page.now())
    await page.ask("", lambda work, at: work.add_key(row))
    page.keys.renew()
    return render_keys(page, request, made=(label, key))


async def drop_key(page: Page, request: HttpRequest, form: dict[str, str]) -> Response:
    """Drop a key; not the one by which the visitor is here."""
    visitor: Visitor = request.scope["visitor"]
    digest = form.get("digest", "")
    known = {row.digest: row for row in page.read(lambda store: store.keys())}
    if digest not in known or visitor.experiment not in (None, known[digest].experiment):
        raise Refused(404, "unknown_key", "there is no such key")
    if digest == visitor.digest:
        return render_keys(
            page, request, "You are logged in with this key. Log in with another one to drop it."
        )
    await page.ask("", lambda work, at: work.drop_key(digest))
    page.keys.renew()
    return RedirectResponse("/keys?done=dropped", 303)
