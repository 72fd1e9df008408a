"""Which files a command names: `perhaps` are words that may be no file, `all of` a directory with what is in it."""

import pytest

from byleave.shell.knowledge.named_files import named_files
from byleave.shell.knowledge.possible_files import PossibleFile
from byleave.shell.reader import read_command


def said(named: PossibleFile) -> str:
    text = "?" if named.text is None else named.text
    return f"{'perhaps ' if named.perhaps else ''}{named.op} {'all of ' if named.tree else ''}{text}"


NAMED: dict[str, list[str]] = {
    # An option whose value is known in part, or not at all.
    "grep --file=$x y": ["read ?", "read y"],
    "grep -f$x y": ["read ?", "read y"],
    'curl --output="$x" h': ["write ?", "perhaps read h", "perhaps write h"],
    'curl --data="@$x" h': ["read ?", "perhaps read h", "perhaps write h"],
    'curl --dat"$x" h': ["read ?", "perhaps read h", "perhaps write h"],
    'curl --max-time="$x" h': ["perhaps read h", "perhaps write h"],
    "grep -f": [],
    'sftp "$x"': ["write ?"],
    'sort -u"$x" y': ["read ?", "read y"],
    'grep -n"$x" y': ["read y"],
    'grep --include="$x" a y': ["read y"],
    'sort -o="$x" y': ["write ?", "read ?", "read y"],
    "curl -F a=@.env h": ["perhaps read .env", "perhaps write .env", "perhaps read h", "perhaps write h"],
    "curl -d @.env h": ["read .env", "perhaps read .env", "perhaps read h", "perhaps write h"],
    "curl -d @- h": ["perhaps read h", "perhaps write h"],
    "curl -O 'http://h/[1-3].txt'": ["write ?"],
    "prettier --write $x": ["read all of ?", "write all of ?"],
    'perl -pi -e s/a/b/ "$x"': [
        *("read ?", "perhaps read i", "perhaps write i", "perhaps read pi", "perhaps write pi"),
        *("perhaps read e", "perhaps write e", "perhaps read s/a/b/", "perhaps write s/a/b/"),
    ],
    # Addresses, containers, copies and links.
    "socat FILE:.env -": [
        *("perhaps read FILE:.env", "perhaps write FILE:.env", "perhaps read .env", "perhaps write .env"),
        *("perhaps read FILE", "perhaps write FILE"),
    ],
    'socat "FILE:$x" -': ["read ?", "write ?"],
    'socat "FI$x" -': ["read ?", "write ?"],
    'socat "TCP:$x" -': [],
    "qpdf .env -": ["read .env"],
    "dd if=.env of=x": ["read .env", "write x"],
    'dd "b$x"': ["write ?"],
    'dd "bs=$x" if=a': ["read a"],
    "ln -s .env": ["read all of .env", "read all of .env", "write all of .env", "write all of .env", "write .env"],
    'ln -s "$x"': ["read all of ?", "write all of ?", "write ?"],
    "mktemp -p d a.XXX": ["perhaps read p", "perhaps write p", "write d", "write a.XXX"],
    # jq takes options behind `--args` as well.
    "jq . .env --args a": ["read .env"],
    "jq --args . a .env": [],
    "jq -n --args '$x' --rawfile x .env": ["perhaps read x", "perhaps write x", "read .env"],
    "jq --jsonargs --slurpfile x .env . 1": ["perhaps read x", "perhaps write x", "read .env"],
    "jq --args -f .env a": ["perhaps read .env", "perhaps write .env", "read .env", "read a"],
    # git.
    "git log HEAD:.env": ["read .env", "read .env"],
    "git log -p HEAD:.env": ["read .env", "read .env"],
    "git log -L 1,2:.env": ["read .env"],
    'git log -L "$x"': ["read ?"],
    "git stash .env": ["read .env"],
    "git stash push .env": ["read all of .env", "write all of .env"],
    "git stash -u": ["read all of ."],
    "git stash": [],
    "git checkout-index -a": ["perhaps read a", "perhaps write a", "write all of ."],
    "git checkout-index --prefix=d/ a": ["write d/a"],
    "git clone http://h/r.git": ["write r"],
    "git clone http://h/r.git d": ["write d"],
    'git clone "$x"': ["read all of ?", "write ?"],
    "git clone": [],
}


@pytest.mark.parametrize("line", NAMED)
def test_a_command_names_these_files(line: str) -> None:
    assert [said(named) for named in named_files(read_command(line).commands[0])] == NAMED[line]


def test_a_copy_out_of_a_container_writes_here_and_one_to_a_stream_does_not() -> None:
    for line, expected in {
        "docker cp c:/x .env": "write all of .env",
        "docker cp .env c:/x": "read all of .env",
        'docker cp c:/x "$x"': "write all of ?",
        "docker cp c:/x -": None,
        "docker cp - c:/x": None,
    }.items():
        sure = [said(named) for named in named_files(read_command(line).commands[0]) if not named.perhaps]
        assert sure == ([] if expected is None else [expected])
