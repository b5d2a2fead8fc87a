"""The wheels of the driver and of the executors, which must be of one release."""

from __future__ import annotations

from pyspark_pennon.errors import unsupported


def installed_release() -> str:
    """The versions of both wheels in this process."""
    import pennon

    import pyspark_pennon

    return f"pennon {pennon.__version__} and pyspark-pennon {pyspark_pennon.__version__}"


def check_release(driver: str) -> None:
    """Refuse to work for a driver with another release of a wheel."""
    found = installed_release()
    if found != driver:
        raise unsupported(
            f"The driver has {driver}, but this executor has {found}: install one version of the wheels pennon and "
            "pyspark-pennon on the driver and on all executors"
        )
