"""The commands that remove runs, `rm` and `gc`: without --yes they only list them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dynascope.cli.complete import complete_run
from dynascope.cli.options import Runs, say
from dynascope.cli.store import Name
from dynascope.lab.errors import UsageError

if TYPE_CHECKING:
    from dynascope.lab.inventory import Item
    from dynascope.lab.store import Store

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Remove the runs instead of listing them.")]


def rm(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help=f"Runs: {Name}.", autocompletion=complete_run)],
    yes: Yes = False,
    runs: Runs = None,
) -> None:
    """Remove stored runs. Without --yes, only list them."""
    from dynascope.lab.cleaning import find_named
    from dynascope.lab.store import Store

    store = Store(runs)
    _clean(store, [(item, "" if item.run else item.state) for item in find_named(store, names)], yes)


def gc(
    pattern: Annotated[str, typer.Argument(help="A glob over ids.", autocompletion=complete_run)] = "*",
    old_code: Annotated[
        bool, typer.Option("--old-code", help="Runs measured by different code, so that a new run could reuse nothing.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Runs that crashed, were cut short or are damaged.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Only runs older than this, such as 12h, 30d or 2w."),
    ] = None,
    yes: Yes = False,
    runs: Runs = None,
) -> None:
    """Remove stored runs by kind, including points of sweeps. Without --yes, only list them."""
    from dynascope.lab.cleaning import choose, parse_duration
    from dynascope.lab.store import Store

    if not (old_code or failed or older_than):
        raise UsageError("gc needs at least one of --old-code, --failed and --older-than AGE")
    store, seconds = Store(runs), parse_duration(older_than) if older_than else None
    items, lines = choose(store, pattern, old_code=old_code, failed=failed, older_than=seconds)
    for line in lines:
        say(line)
    _clean(store, items, yes)


def _clean(store: Store, items: list[tuple[Item, str]], yes: bool) -> None:
    from dynascope.lab import formatting
    from dynascope.lab.cleaning import remove

    sizes = {item.folder: item.size for item, _ in items}  # before they are gone
    gone, left = remove(store, [item for item, _ in items], dry=not yes)
    whys = {item.folder: why for item, why in items}
    for item in gone:
        why = f"{whys[item.folder]}, " if whys[item.folder] else ""
        print(f"{item.folder}  {why}{formatting.age(item.age)}, {formatting.size(sizes[item.folder])}")
    for line in left:
        say(line)
    total = formatting.size(sum(sizes[item.folder] for item in gone))
    count = f"{len(gone)} folder{'s' * (len(gone) != 1)}, {total}"
    if yes:
        print(f"removed {count}")
    elif gone:
        print(f"{count} to remove; nothing is removed yet: repeat the command with --yes")
    else:
        print("nothing to remove")
    raise typer.Exit(1 if left else 0)
