"""`mien doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json

Full = Annotated[bool, Parameter(help="Look at every installed model, however long it takes.", show_default=False)]


def doctor(*, full: Full = False, json: Json = False, debug: Debug = False) -> int:
    """Check this installation and this machine. Exit code 1 when something is broken."""
    from mien.doctor import examine

    checks = examine(full=full)
    broken = any(check.status == "problem" for check in checks)
    if json:
        print_json({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            print(f"{check.status:<8}{check.name:<28}{check.value}")
            if check.fix:
                print(f"{'':<36}fix: {check.fix}")
    return int(broken)
