"""`python -m mien` is the `mien` command."""

import sys

from mien.cli.main import main

sys.exit(main())
