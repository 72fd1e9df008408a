"""`file:` URLs in commands name the file that the program opens."""

import pytest

from byleave.shell.knowledge.possible_files import local_path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///tmp/%2Eenv", "/tmp/.env"),
        ("file://localhost/a%20b", "/a b"),
        ("FILE:/caf%C3%A9", "/café"),
        ("file:///%FF", "/\udcff"),
        ("file:///\ud800%41", "/\ud800%41"),
        ("file:///a%+Ab%zz%", "/a%+Ab%zz%"),
    ],
)
def test_a_local_url_is_read_as_curl_reads_it(url: str, path: str) -> None:
    assert local_path(url) == path
