"""What tests of logs share: files with a given content."""

import pytest


@pytest.fixture
def write(tmp_path):
    """write(content, name): a file of this text, or of these bytes."""

    def write(content, name="log.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
