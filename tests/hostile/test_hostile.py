"""A few hostile cases of every subject; ``make hostile`` plays thousands."""

import os
from collections import defaultdict

import pytest

from hostile.pool import TESTS, play_all
from hostile.subjects import SUBJECTS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name == "nt", reason="kills processes by POSIX signals"),
]

SEED = 1


@pytest.fixture(scope="module")
def verdicts():
    """All cases in one go, so that workers and what they have prepared are shared."""
    found = defaultdict(list)
    cases = [(name, SEED, n) for name, subject in SUBJECTS.items() for n in range(subject.suite)]
    play_all(cases, lambda v: found[v.subject].append(v), workers=1, source=TESTS.parent / "src")
    return found


@pytest.mark.parametrize("subject", SUBJECTS)
def test_hostile_cases_are_survived_or_refused(subject, verdicts):
    assert len(verdicts[subject]) == SUBJECTS[subject].suite
    bad = [verdict for verdict in verdicts[subject] if not verdict.allowed]
    assert not bad, "to repeat: make hostile ONLY=… SEED=… CASE=…\n" + "\n".join(
        f"{v.outcome}: {v.about}: {v.detail} (ONLY={subject!r} SEED={SEED} CASE={v.number})"
        for v in bad
    )
