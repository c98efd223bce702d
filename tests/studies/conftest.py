"""The tiny settings of all studies, run once for all tests of this folder."""

import pytest

from influential_bandits.studies.runner.running import reproduce
from influential_bandits.studies.runner.study import find_studies


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The folder that ``reproduce --tiny`` fills, and what it returns."""
    out = tmp_path_factory.mktemp("tiny") / "deep" / "results"
    return out, reproduce(find_studies().values(), out, "tiny")
