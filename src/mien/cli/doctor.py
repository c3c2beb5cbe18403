"""`mien doctor`."""

from __future__ import annotations

from dataclasses import asdict

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json


def doctor(*, json: Json = False, debug: Debug = False) -> int:
    """Check this installation and this machine. Exit code 1 when something is broken."""
    from mien.doctor import examine

    checks = examine()
    broken = any(check.status == "problem" for check in checks)
    if json:
        print_json({"ok": not broken, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            print(f"{check.status:<8}{check.name:<22}{check.value}")
            if check.fix:
                print(f"{'':<30}fix: {check.fix}")
    return int(broken)
