"""The report: the stored runs as a static, self-contained site that opens from any folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dynascope.lab.errors import explain_os_error
from dynascope.lab.report.about import Find, find_registered
from dynascope.lab.store import Store

__all__ = ["write"]


def write(
    store: Store,
    folder: Path,
    find: Find = find_registered,
    *,
    data: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Path:
    """Write the report of the store's complete runs.

    Args:
        store: The store. Damaged runs are left out, and named on the page.
        folder: The folder to write to: new, empty, or with an earlier report.
        find: Called with an id; returns the experiment's class, or None. Default: the catalog's.
        data: Whether to copy the arrays (netCDF) beside the pages. They are most of a store's bytes.
        warn: Called with a line for each run that is left out.

    Returns:
        The path of `index.html`.

    Raises:
        UsageError: If the folder holds anything but an earlier report.
    """
    from dynascope.lab.report.atlas import (
        gather,
    )  # they import JAX, which users of this folder's other modules wait for
    from dynascope.lab.report.site import check_ours, write_site

    check_ours(folder, store.root)
    try:
        atlas = gather(store, find, data)
        page, undrawn = write_site(atlas, folder, find)
    except OSError as error:
        raise explain_os_error(error, "writing the report") from error
    if warn:
        for problem in atlas.problems:
            warn(f"left out: {problem}")
        for problem in undrawn:
            warn(f"the stored figures are shown: {problem}")
        if not (atlas.experiments or atlas.sweeps or atlas.limits):
            warn(f"no runs are stored in {store.root}: the report is empty")
    return page
