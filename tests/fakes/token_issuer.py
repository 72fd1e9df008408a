"""An issuer of JSON Web Tokens on loopback: its metadata, its keys, and tokens that say what a test wants."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "https://mcp.example.com/mcp"


def part(tree: object) -> str:
    """Return one part of a token: JSON, or bytes as they are."""
    raw = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class TokenIssuer:
    """Signs with one key. `answers`: what it serves, by path; a status stands for a refusal."""

    def __init__(self, issuer: str = "", kid: str = "k1") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.kid = kid
        self.issuer = issuer
        self.answers: dict[str, bytes | int | tuple[int, str]] = {}
        self.asked: list[str] = []
        self.slow: asyncio.Event | None = None
        self.serving: set[asyncio.Task[Any]] = set()

    @property
    def keys(self) -> dict[str, Any]:
        public = jwt.get_algorithm_by_name("ES256").to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": self.kid}]}

    def publish(self, path: str = "/.well-known/oauth-authorization-server", **metadata: str) -> None:
        """Serve the metadata at a path, and the keys."""
        said = {"issuer": self.issuer, "jwks_uri": f"{self.origin}/keys", **metadata}
        self.answers |= {path: json.dumps(said).encode(), "/keys": json.dumps(self.keys).encode()}

    @property
    def origin(self) -> str:
        return "/".join(self.issuer.split("/")[:3])

    def claims(self, **claims: Any) -> dict[str, Any]:
        usual = {"iss": self.issuer, "aud": AUDIENCE, "exp": int(time.time()) + 60, "sub": "client-1"}
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}

    def token(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        return self.signed(self.claims(**claims), **(header or {}))

    def signed(self, claims: dict[str, Any], **header: Any) -> str:
        named = {"kid": self.kid, "typ": "at+jwt", **header}
        return jwt.encode(claims, self.key, algorithm="ES256", headers=named)

    def by_hand(self, header: object, claims: object) -> str:
        """Return a token whose signature is good, whatever its parts are."""
        said = f"{part(header)}.{part(claims)}"
        algorithm = jwt.get_algorithm_by_name("ES256")
        return f"{said}.{part(algorithm.sign(said.encode(), self.key))}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            try:
                await self._serve(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()
                self.serving.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        if self.slow is not None:
            await self.slow.wait()
        found = self.answers.get(path, 404)
        status, more, body = (200, "", found) if isinstance(found, bytes) else (found, "", b"")
        if isinstance(found, tuple):
            status, more = found[0], f"Location: {found[1]}\r\n"
        writer.write(f"HTTP/1.1 {status} X\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


@asynccontextmanager
async def issuing(path: str = "", kid: str = "k1") -> AsyncIterator[TokenIssuer]:
    """Serve an issuer on loopback, at a port of its own."""
    made = TokenIssuer(kid=kid)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
    async with server:
        try:
            yield made
        finally:
            if made.slow is not None:
                made.slow.set()
            server.close()
            await asyncio.sleep(0.01)  # what has just connected is served to its end
            if made.serving:
                await asyncio.wait(made.serving, timeout=5)
