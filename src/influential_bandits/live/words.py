"""Numbers, times, settings and results, in words."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.evidence import FEWEST
from influential_bandits.live.settings import make_policy

MINUS = "−"
MOST_DIGITS = 12  # after the point


class PolicyWords(NamedTuple):
    """A policy in short, and what it does."""

    name: str
    rule: str


def write_number(value: float | None, digits: int = 3) -> str:
    """Return a number for people: so many digits, or a dash for none.

    Examples
    --------
    >>> write_number(-0.01234), write_number(1234567), write_number(None), write_number(0.2 + 0.1)
    ('−0.0123', '1,234,567', '–', '0.3')
    """
    if value is None:
        return "–"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        text = f"{int(value):,}"
    elif abs(value) >= 10**digits:
        text = f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def count_digits(values: Iterable[float | None], digits: int = 3) -> int:
    """Return the decimals with which the largest of some numbers has so many digits.

    Examples
    --------
    >>> count_digits([0.297, -0.44]), count_digits([12.0, 0.001]), count_digits([])
    (3, 1, 3)
    """
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if not largest or not math.isfinite(largest):
        return digits
    return min(max(digits - 1 - math.floor(math.log10(largest)), 0), MOST_DIGITS)


def write_decimal(value: float | None, decimals: int) -> str:
    """Return a number with so many decimals, as those beside it have, or a dash for none.

    Examples
    --------
    >>> write_decimal(-0.44, 3), write_decimal(0.00808, 2), write_decimal(None, 2)
    ('−0.440', '0.01', '–')
    """
    if value is None:
        return "–"
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", MINUS)


def write_share(value: float) -> str:
    """Return a share in per cent: at least one digit, and never 100 % of what is less."""
    text = f"{100.0 * value:.3g}"
    return "above 99.9 %" if text == "100" and value < 1.0 else f"{text} %"


def write_time(at: float | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time in UTC."""
    if at is None:
        return "–"
    try:
        return time.strftime(form, time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return write_number(at)


def write_span(seconds: float) -> str:
    """Return a length of time: 15 s, 2 min, 4.3 h, 2.8 days."""
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


def describe_policy(description: str | dict[str, Any]) -> PolicyWords:
    """Return a policy of settings in words."""
    try:
        policy = make_policy(description)
    except InfluentialBanditsError:  # a policy of a module that is not imported here
        return PolicyWords(str(description)[:80], "")
    rule = (type(policy).__doc__ or "").strip().partition("\n")[0]
    label = policy.label
    return PolicyWords(label if len(label) <= 80 else f"{type(policy).__name__}(…)", rule)


def describe_evidence(report: dict[str, Any], settings: dict[str, Any]) -> str:
    """Return what the A/B test of a report says, in a sentence or two."""
    if settings["mode"] == "shadow":
        return _describe_shadow(report, settings)
    difference, low, high = report["difference"], report["low"], report["high"]
    if difference is None:
        return _describe_lack(report, settings)
    digits = count_digits((difference, low, high))
    size = write_decimal(abs(difference), digits)
    ends = sorted((abs(low), abs(high)))
    by = f"by {size} a decision ({' to '.join(write_decimal(end, digits) for end in ends)})"
    verb, participle = ("earns", "earned") if report["outcome"] == "reward" else ("loses", "lost")
    if low > 0.0 or high < 0.0:
        advice = " Consider pausing it." if judge_tone(report) == "worse" else ""
        more = "more" if low > 0.0 else "less"
        return f"The policy {verb} {more} than the control, {by}.{advice}"
    less = "less" if difference < 0.0 else "more"
    return (
        f"No difference has been shown yet. So far the policy has {participle} {size} a decision "
        f"{less}; all from {write_decimal(low, digits)} to {write_decimal(high, digits)} is still "
        "possible."
    )


def judge_tone(report: dict[str, Any]) -> str:
    """Return whether the policy is better, worse, or neither yet ("open")."""
    low, high = report["low"], report["high"]
    if low is None or low <= 0.0 <= high:
        return "open"
    return "better" if (low > 0.0) == (report["outcome"] == "reward") else "worse"


REWARDS = {  # entries that change their sign, and their names in rewards
    "loss": "reward",
    "mean_loss": "mean_reward",
    "expected_loss": "expected_reward",
    "expected_losses": "expected_rewards",
    **{name: name for name in ("by_arm", "products", "difference", "low", "high")},
}


def tell_rewards(data: Any, *, negate: bool = False) -> Any:
    """Return what was told in losses in rewards, which are minus the losses.

    Examples
    --------
    >>> tell_rewards({"arm": "tea", "mean_loss": -0.5, "low": -2.0, "high": 1.0})
    {'arm': 'tea', 'mean_reward': 0.5, 'low': -1.0, 'high': 2.0}
    """
    if isinstance(data, dict):
        turned = {
            REWARDS.get(name, name): tell_rewards(value, negate=negate or name in REWARDS)
            for name, value in data.items()
        }
        if "low" in turned:
            turned["low"], turned["high"] = turned["high"], turned["low"]
        return turned
    if isinstance(data, list):
        return [tell_rewards(part, negate=negate) for part in data]
    return 0.0 - data if negate and data is not None else data


def describe_silence(since: float | None) -> str:
    """Return that no feedback comes any more, if so."""
    if since is None:
        return ""
    return (
        f"No feedback has come since {write_time(since)} UTC, though decisions have been made for "
        "an hour. Nothing is learned; see whether losses are still sent."
    )


def _describe_lack(report: dict[str, Any], settings: dict[str, Any]) -> str:
    """Return why the A/B test says nothing."""
    if report["doubts"]:
        return f"No verdict: {'. Also, '.join(report['doubts'])}."
    policy, control = report["policy"]["instances"], report["control"]["instances"]
    if not settings["control_share"] and not control:
        return (
            "There is no control group, so that nobody can say what the policy is worth. "
            "Give a share of new instances to the control in the settings."
        )
    return (
        f"Too early to tell: each group needs {FEWEST} instances with feedback. "
        f"The policy has {policy:,}, the control {control:,}."
    )


def _describe_shadow(report: dict[str, Any], settings: dict[str, Any]) -> str:
    serves = "In shadow mode your own choices are served to everybody."
    if report["difference"] is None:
        return f"{serves} The two groups differ in nothing, and there is nothing to compare."
    before = describe_evidence(report, {**settings, "mode": "live"})
    return f"{serves} They are left out here. {before}"
