"""What contestants need and the source tree does not have: Python packages and Hadoop's archives,
brought on request from the registries that pip and Maven are set up for. What is there is not
fetched again. Debian's packages are the launcher's business."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# How long one installation may take.
LIMIT_SECONDS = 1200


class NotInstalled(Exception):
    """Something is not there and could not be brought: why, and what to do."""


def say(line: str) -> None:
    """A line of progress."""
    print(f"nile: {line}", file=sys.stderr, flush=True)


class Tools:
    """Where what is installed lies: below the build's folder."""

    def __init__(self, folder: Path, packages: dict[str, str]) -> None:
        self.folder = folder
        self.packages = packages
        self.python = folder / "venv/bin/python"

    def need_packages(self, *names: str) -> None:
        """Brings Python packages in the versions of the tuning file."""
        if not self.python.exists():
            say("making an environment for Python packages")
            self.folder.mkdir(parents=True, exist_ok=True)
            bring([sys.executable, "-m", "venv", str(self.folder / "venv")], "python3-venv")
        wanted = [(name, self.packages[name]) for name in names]
        missing = [f"{name}=={version}" for name, version in wanted if not self.has(name, version)]
        if missing:
            what = ", ".join(missing)
            say(f"installing {what}")
            # Few of their modules are ever run; Python compiles those as it meets them.
            pip = [str(self.python), "-m", "pip", "install", "--quiet", "--no-compile"]
            bring([*pip, *missing], what)

    def has(self, name: str, version: str) -> bool:
        """Whether this Python package is there."""
        return any(self.folder.glob(f"venv/lib/*/site-packages/{name}-{version}.dist-info"))

    def run(self, module: str, *arguments: str | Path) -> None:
        """Runs one of the modules of the benchmarks that need those packages."""
        places = (str(it.resolve()) if isinstance(it, Path) else it for it in arguments)
        words = [str(self.python), "-m", module, *places]
        bring(words, module, "could not be run", HERE.parent)

    def need_java(self) -> str:
        """The Java that runs Hadoop and Spark."""
        return program("java", "openjdk-17-jre-headless")

    def need_hadoop(self, version: str) -> Path:
        """The folder with Hadoop's archives and all that they need."""
        archives = self.folder / f"hadoop-{version}"
        if not archives.exists():
            maven = program("mvn", "maven")
            say(f"installing Hadoop {version}")
            part = archives.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            words = [maven, "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml")]
            words += [f"-Dhadoop.version={version}", "dependency:copy-dependencies"]
            bring([*words, f"-DoutputDirectory={part}", "-DincludeScope=runtime"], "Hadoop")
            part.rename(archives)
        return archives


def program(name: str, package: str) -> str:
    """A program on the search path, which Debian's `package` brings."""
    path = shutil.which(name)
    if path is None:
        raise NotInstalled(f"{name} is missing; run: sudo apt-get install -y {package}")
    return path


def bring(
    words: list[str], what: str, failed: str = "could not be installed", folder: Path | None = None
) -> None:
    """Runs a command that installs `what`."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{what} {failed} within {LIMIT_SECONDS} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last = said[-1].strip() if said else "it said nothing"
        raise NotInstalled(f"{what} {failed} by {Path(words[0]).name}: {last}")
