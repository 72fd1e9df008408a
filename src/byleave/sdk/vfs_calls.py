"""The requests of the protocol: for each, its method and its parameters. What they answer is read by `vfs_results`."""

from byleave.sdk.vfs_results import carry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Call = tuple[str, dict[str, Any]]


def read(path: str) -> "Call":
    """Ask for the content of a file."""
    return "fs.read", _place("path", path)


def write(path: str, content: str | bytes, *, exclusive: bool) -> "Call":
    """Ask for a file to hold this content."""
    text, encoding = carry(content)
    params: dict[str, Any] = {**_place("path", path), "content": text}
    if encoding is not None:
        params["encoding"] = encoding
    if exclusive:
        params["exclusive"] = True
    return "fs.write", params


def exists(path: str) -> "Call":
    """Ask whether something is there."""
    return "fs.exists", _place("path", path)


def list_dir(path: str) -> "Call":
    """Ask what a directory holds."""
    return "fs.list_dir", _place("path", path)


def metadata(path: str) -> "Call":
    """Ask what is there."""
    return "fs.metadata", _place("path", path)


def delete(path: str) -> "Call":
    """Ask for a file to be removed."""
    return "fs.delete", _place("path", path)


def rename(source: str, target: str, *, exclusive: bool = False) -> "Call":
    """Ask for a file or a directory to be moved."""
    params = {**_place("from", source), **_place("to", target)}
    return "fs.rename", {**params, "exclusive": True} if exclusive else params


def grep(pattern: str, paths: "Sequence[str] | None", extensions: "Sequence[str] | None", context: int) -> "Call":
    """Ask where a pattern occurs."""
    params: dict[str, Any] = {"pattern": pattern, "context": context}
    if paths is not None:
        params["paths"] = list(paths)
    if extensions is not None:
        params["extensions"] = list(extensions)
    return "fs.grep", params


def http(
    verb: str, url: str, headers: "Mapping[str, str] | Sequence[tuple[str, str]] | None", body: str | bytes | None
) -> "Call":
    """Ask for a request to a server."""
    params: dict[str, Any] = {"url": url}
    if headers:
        pairs = headers.items() if hasattr(headers, "items") else headers
        params["headers"] = [{"name": name, "value": value} for name, value in pairs]
    if body is not None:
        params["body"], encoding = carry(body)
        if encoding is not None:
            params["encoding"] = encoding
    return f"http.{verb}", params


def run(program: str, args: "Sequence[str]", envs: "Sequence[str]") -> "Call":
    """Ask for a program to be run."""
    return "process.run", {"program": program, "args": list(args), "envs": list(envs)}


def _place(name: str, path: str) -> "dict[str, Any]":
    """Return a path as it travels: one that is not UTF-8, as `list_dir` gives it, by its bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return {f"{name}_b64": carry(path.encode(errors="surrogateescape"))[0]}
    return {name: path}
