"""What goes, goes with a warning that says what to use."""

import pytest

from influential_bandits.deprecation import warn_deprecated


def old(n):
    warn_deprecated("old(n=…)", since="1.4", instead="new(seeds=…)")
    return n


def test_the_warning_names_versions_and_replacement_and_points_at_the_caller():
    with pytest.warns(
        DeprecationWarning, match=r"old\(n=…\).*since 1\.4.*2\.0.*new\(seeds"
    ) as told:
        assert old(3) == 3
    assert told[0].filename == __file__
