"""The store that `[store] url` or `BYLEAVE_STORE` names, for commands: opened, or only read.

Nothing of it is loaded where the store is this user's own files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.workspace import load_policy
from byleave.errors import ConfigErrors, InputError
from byleave.store.address import KEY_VARIABLE, VARIABLE, chosen_store
from byleave.store.audit.log import AuditLog

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace
    from byleave.store.address import StoreAddress
    from byleave.store.interfaces import RecordReader
    from byleave.store.postgres.shared_store import SharedStore


def open_shared(workspace: Workspace, settings: Mapping[str, Any]) -> SharedStore | None:
    """Return the store that gateways share, None if there is none. Close it in the end."""
    address = chosen_store(settings, os.environ)
    if address is None:
        return None
    try:
        from byleave.store.postgres.shared_store import open_store  # heavy: only where a database is shared
    except ImportError as error:
        raise _not_installed(address, error) from None
    return open_store(address, workspace.homes.config, os.environ)


def open_records(given: ParsedArguments, workspace: Workspace) -> RecordReader:
    """Return the records that commands show: those of the shared store, or of this user. Close them in the end.

    Where the configuration cannot be used, it cannot say that there is a shared store: the user's own are shown.
    """
    log = AuditLog(workspace.homes.workspace(workspace.root.path))
    try:
        address = chosen_store({}, os.environ) or chosen_store(
            load_policy(given, workspace).compiled.settings, os.environ
        )
    except ConfigErrors:
        log.warnings.append("the configuration cannot be used; these are the records of your own files")
        return log
    if address is None:
        return log
    try:
        from byleave.store.postgres.shared_store import open_records as read  # heavy: only where a database is shared
    except ImportError as error:
        raise _not_installed(address, error) from None
    return read(address, workspace.homes.config, os.environ, workspace.homes.state)


def hide_variables() -> None:
    """Take the store's password and key out of the environment: no rule lends them to a program that is started."""
    for name in (VARIABLE, KEY_VARIABLE):
        os.environ.pop(name, None)


def _not_installed(address: StoreAddress, error: ImportError) -> InputError:
    problem = f"the store {address.shown} needs a package that is not installed: {error.name}"
    return InputError(problem, hint="install byleave with the extra: pip install 'byleave[postgres]'")
