"""Write what a wheel is made of, as CycloneDX JSON: the programs in it, what they are linked with, what it requires.

The wheel has it below `.dist-info/sboms` (PEP 770; hatch_build.py). Versions of what is installed beside byleave are
not known before it is installed: each requirement stands with its range. There is no serial number and no time, so that
two builds of the same sources are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LIBC = "#include <features.h>\n__GLIBC__ __GLIBC_MINOR__ __GNUC__ __GNUC_MINOR__ __GNUC_PATCHLEVEL__\n"


def make_sbom(version: str, requirements: dict[str, list[str]], programs: list[str], compiler: str) -> str:
    """Return the document. `requirements`: by the extra that needs them, "" for all; `programs`: compiled files."""
    own = f"pkg:pypi/byleave@{version}"
    linked = _linked(compiler) if programs else []
    parts = [*map(_program, sorted(programs)), *linked]
    parts += [_requirement(extra, text) for extra, all_of in sorted(requirements.items()) for text in sorted(all_of)]
    component: dict[str, Any] = {
        "type": "application",
        "bom-ref": own,
        "name": "byleave",
        "version": version,
        "purl": own,
    }
    component["licenses"] = [{"license": {"id": "MIT"}}]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component},
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _program(path: str) -> dict[str, Any]:
    name = os.path.basename(path)
    with open(path, "rb") as file:
        content = hashlib.sha256(file.read()).hexdigest()
    return {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": content}]}


def _linked(compiler: str) -> list[dict[str, Any]]:
    """Return the libraries whose code is part of the programs: the full launcher is linked statically."""
    asked = [compiler, "-E", "-P", "-x", "c", "-"]
    done = subprocess.run(asked, input=_LIBC, capture_output=True, text=True, check=True, timeout=60)
    major, minor, *gcc = done.stdout.split()[-5:]
    found = {
        "glibc": (f"{major}.{minor}", "LGPL-2.1-or-later"),
        "libgcc": (".".join(gcc), "GPL-3.0-or-later WITH GCC-exception-3.1"),
    }
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:generic/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:generic/{name}@{version}",
            "licenses": [{"expression": licence}],
        }
        for name, (version, licence) in found.items()
    ]


def _requirement(extra: str, text: str) -> dict[str, Any]:
    match = _NAME.match(text)
    name = match[0].lower() if match else text
    properties = [{"name": "byleave:requires", "value": text}]
    properties += [{"name": "byleave:extra", "value": extra}] if extra else []
    return {
        "type": "library",
        "bom-ref": f"{extra or 'byleave'}:{text}",
        "name": name,
        "purl": f"pkg:pypi/{name}",
        "scope": "optional" if extra else "required",
        "properties": properties,
    }
