"""`make bench`."""

import sys

from tests.benchmarks.router_vs_gossipsub import main

sys.exit(main())
