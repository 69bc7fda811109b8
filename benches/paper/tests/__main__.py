"""`python3 benches/paper/tests`: runs the tests with the Python that has the packages for
statistics and plots, which are installed for it."""

import os
import subprocess
import sys
from pathlib import Path

BENCHES = Path(__file__).parent.parent.parent
sys.path.insert(0, str(BENCHES))

from harness import tuning  # noqa: E402
from harness.install import Tools  # noqa: E402
from paper.main import PACKAGES  # noqa: E402

target = Path(os.environ.get("CARGO_TARGET_DIR") or BENCHES.parent / "target")
tools = Tools(target / "peers", tuning.read(tuning.FILE.read_text(), tuning.words())["packages"])
tools.need_packages(*PACKAGES)
words = [str(tools.python), "-m", "unittest", "discover", "--start", str(Path(__file__).parent)]
sys.exit(subprocess.call([*words, *sys.argv[1:]]))
