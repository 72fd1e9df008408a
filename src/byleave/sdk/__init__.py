"""For authors of tools: check before you touch.

ctx = Context.from_json(text)
path = ctx.check_read("src/lib.rs")     # the resolved absolute path, or FsAccessError
"""

from byleave.errors import FsAccessError
from byleave.sdk.context import Context

__all__ = ["Context", "FsAccessError"]
