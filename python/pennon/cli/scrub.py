"""`pennon scrub`: all files of a table compared with their checksums, slowly and with breaks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from pennon.cli._errors import found_something
from pennon.cli._open import Address, explained, table_argument
from pennon.cli._output import Output, output_options
from pennon.cli._progress import watched
from pennon.scrubbing import scrub

_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


class Rate(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes in a second, with a unit."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        upper = value.strip().upper().removesuffix("/S").removesuffix("B")
        digits = upper.rstrip("KMGI")
        try:
            rate = float(digits) * (_UNITS[upper[len(digits) :]] if len(upper) > len(digits) else 1)
        except (ValueError, KeyError):
            rate = 0
        if not 1 <= rate < 2**63:
            self.fail(f"{value!r} is not a rate: expected bytes in a second, such as 50M or 200MiB", param, ctx)
        return int(rate)


@click.command()
@table_argument(pinned=False, branch=False)
@click.option("--rate", type=Rate(), metavar="BYTES", help="The most in a second: 50M, 1GiB.")
@click.option("--state", metavar="FILE", help="Remember what is done in this file, and go on there.")
@output_options("table", "json")
def command(table: Address, output: Output, rate: int | None, state: str | None) -> int:
    """Compare all files of a table with their checksums, at a bounded rate.

    Compares all files of all versions, one after the other. Exit status: 0 if nothing is wrong, 1 if something is,
    3 if the table could not be looked at.
    """
    with explained(table), watched("scrub") as progress:
        report = scrub(
            table.uri,
            bytes_per_second=rate,
            state=state,
            storage_options=table.storage_options,
            progress=progress,
        )
    status = 0 if report.ok else found_something()
    output.report(asdict(report), str(report))
    return status
