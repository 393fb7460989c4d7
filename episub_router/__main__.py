"""`python -m episub_router` is the command `episub`."""

import sys

from episub_router.cli.main import main

sys.exit(main())
