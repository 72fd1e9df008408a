"""One word per idea: messages, docstrings, comments, names and docs use the words of `cases/vocabulary.toml`."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import byleave

SOURCE = Path(byleave.__file__).parent
REPOSITORY = Path(__file__).parent.parent
TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "cases" / "vocabulary.toml").read_text())
PENDING: dict[str, list[str]] = TABLE["pending"]
KINDS = ("messages", "prose", "names")
PACKAGES = sorted(entry.stem for entry in SOURCE.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists())
DOCS = sorted(
    [*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "docs/guides").glob("*.md"), REPOSITORY / "README.md"]
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
CODE = re.compile(r"<!--.*?-->|```.*?```|``.+?``|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

Text = tuple[int, str]  # the line where it begins, and the text


def banned_in(kind: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns that count in one kind of text, each with what to say instead."""
    return [
        (re.compile(rf"(?<![\w-])(?:{word['pattern']})(?![\w-])", re.IGNORECASE), word["say"])
        for word in TABLE["word"]
        if kind in word["in"]
    ]


def docstring_of(node: ast.AST) -> ast.Constant | None:
    if not isinstance(node, DOCUMENTED) or not node.body or not isinstance(node.body[0], ast.Expr):
        return None
    value = node.body[0].value
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def messages(tree: ast.AST) -> Iterator[Text]:
    """Yield the strings that a person may read: those with a blank in them that are no docstrings."""
    docstrings = {id(docstring_of(node)) for node in ast.walk(tree)}
    pieces: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces.update(id(piece) for piece in node.values)
            text = "".join(str(piece.value) if isinstance(piece, ast.Constant) else "{}" for piece in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | pieces:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, CODE.sub(" ", text)


def prose(source: str, tree: ast.AST) -> Iterator[Text]:
    """Yield docstrings and comments, without the code that is quoted in them."""
    for node in ast.walk(tree):
        found = docstring_of(node)
        if found is not None:
            yield found.lineno, CODE.sub(" ", str(found.value))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# type:"):
            yield token.start[0], CODE.sub(" ", token.string)


def names(tree: ast.AST) -> Iterator[Text]:
    """Yield what is named here, as words: `PolicyView` is "Policy View"."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def texts(kind: str, source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    if kind == "names":
        yield from ((line, " ".join(WORD.findall(name))) for line, name in names(tree))
    else:
        yield from messages(tree) if kind == "messages" else prose(source, tree)


def findings(kind: str, found: Iterator[Text]) -> Iterator[str]:
    banned = banned_in(kind)
    for line, text in found:
        for pattern, say in banned:
            for match in pattern.finditer(text):
                at = line if kind == "names" else line + text.count("\n", 0, match.start())
                yield f"{at}: {match[0]!r}: say {say}"


def sources(package: str) -> list[Path]:
    file = SOURCE / f"{package}.py"
    return [file] if file.exists() else sorted((SOURCE / package).rglob("*.py"))


def still_pending(kind: str, name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(reason="listed as pending", strict=False)] if name in PENDING.get(kind, []) else []


PLACES = [
    pytest.param(kind, package, id=f"{package}-{kind}", marks=still_pending(kind, package))
    for kind in KINDS
    for package in PACKAGES
]


@pytest.mark.parametrize(("kind", "package"), PLACES)
def test_a_package_uses_the_words_of_the_field(kind: str, package: str) -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{each}"
        for file in sources(package)
        for each in findings(kind, texts(kind, file.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=still_pending("docs", page.name)) for page in DOCS]
)
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    text = CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text())
    assert [f"{page.name}:{each}" for each in findings("docs", iter([(1, text)]))] == []


BAD = '''"""What was told
to nobody."""
class VoiceOfPolicy:
    def judge(self, action):  # whoever it is
        raise ValueError(f"{action} asks: no rule matches `told`")
'''
EXPECTED = {
    "messages": ["asks:"],
    "prose": ["nobody", "told", "whoever"],
    "names": ["Voice", "judge"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_banned_word_is_found_with_its_line(kind: str) -> None:
    found = list(findings(kind, texts(kind, BAD)))
    assert sorted(each.split("'")[1] for each in found) == EXPECTED[kind]
    assert ("2: 'nobody': say name the person" in " ".join(found)) == (kind == "prose")
