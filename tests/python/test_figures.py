"""The figures of `docs/performance.md`: every case runs at a tiny size and its sides agree, one whose sides differ
fails, the results that are checked in are those of the cases, and name no machine and no path."""

from __future__ import annotations

import dataclasses
import importlib
import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import figure_pages
import polars
import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
BENCHES = ROOT / "benches" / "python"
sys.path += [str(BENCHES), str(ROOT / "requirements")]  # scripts, which import each other

import cases  # noqa: E402
import figures  # noqa: E402
import object_store  # noqa: E402
import records  # noqa: E402
import side_by_side  # noqa: E402
import try_checkout  # noqa: E402
import try_wheel  # noqa: E402
from cases.data import TINY, Size, picks, takes  # noqa: E402
from side_by_side import Case, Measured, check_equal, run  # noqa: E402

# What `make figures` installs, and the tests do not.
OPTIONAL = {"formats": ("deltalake", "pyiceberg")}


def group(name: str) -> Any:
    """The module of a group, if its peers are installed."""
    for peer in OPTIONAL.get(name, ()):
        pytest.importorskip(peer, reason="`make figures` installs it")
    return cases.group(name)


def named(*slow: str) -> Any:
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in cases.GROUPS]
    )


@named("s3", "formats")
def test_every_case_runs_and_its_sides_agree(name: str) -> None:
    group(name)
    found = figures.measure(name, TINY, 1)
    assert found["peers"]
    for case in found["cases"]:
        assert case["claim"]
        assert case["store"]
        if "seconds" in case:
            sides = {*case["seconds"], *case["absent"]}
            assert sides == {"pennon", *found["peers"]}
            assert all(len(times) == 1 and times[0] > 0 for times in case["seconds"].values())
    names = [re.sub(r"\d+$", "", case["name"]) for case in figure_pages.results(name)["cases"]]
    assert names == [re.sub(r"\d+$", "", case["name"]) for case in found["cases"]]


def broken(case: Case, action: Callable[..., Any]) -> Callable[..., Any]:
    """An action that returns a row less, or changes nothing."""

    def run(*given: Any) -> Any:
        if case.value is None and case.answer is not None:
            return None
        found = action(*given)
        if isinstance(found, list):
            return found[1:]
        return found.slice(1) if isinstance(found, pa.Table | polars.DataFrame) else found + 1

    return run


@pytest.mark.parametrize("name", ["pylance", "parquet", "formats", "cold", "synced"])
def test_a_case_whose_sides_differ_fails(name: str, tmp_path: Path) -> None:
    count = 0
    for case in group(name).cases(tmp_path, TINY):
        # Copies of a table from before a write have nothing to compare it with.
        for side in [side for side in case.sides if len(case.sides) > 1 and side != "pennon"]:
            sides = {**case.sides, side: broken(case, case.sides[side])}
            with pytest.raises((AssertionError, OSError, ValueError), match=r"differ|not found|does not exist"):
                run(dataclasses.replace(case, sides=sides), 1)
            count += 1
    assert count >= 3


def test_rows_that_an_address_misses_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = cases.group("identity")
    monkeypatch.setattr(identity, "addresses", lambda handle, wanted: list(range(len(wanted))))
    (series,) = identity.cases(tmp_path, TINY)
    with pytest.raises(AssertionError, match="answers differ"):
        series.measure(1)


# How sides run.


def sides(log: list[str], *names: str) -> dict[str, Callable[[], object]]:
    return {name: lambda n=name: log.append(n) or 1 for name in names}


def test_sides_take_turns() -> None:
    log: list[str] = []
    times = run(Case("g", "claim", sides(log, "pennon", "a")), 4)
    assert [len(list_) for list_ in times.values()] == [4, 4]
    assert "".join(name[0] for name in log) == "pa" + "pa" + "ap" + "ap" + "pa"


def test_preparing_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [0.0]
    monkeypatch.setattr(side_by_side, "time", SimpleNamespace(perf_counter=lambda: sum(passed)))

    def takes(seconds: float) -> Callable[[object], int]:
        return lambda _: passed.append(seconds) or 1

    case = Case("g", "claim", {"pennon": takes(2.0), "a": takes(3.0)}, prepare=takes(50.0))
    assert run(case, 2) == {"pennon": [2.0] * 2, "a": [3.0] * 2}


def test_an_action_may_take_its_own_time() -> None:
    case = Case("g", "claim", {"pennon": lambda: Measured(2.0, 1), "a": lambda: Measured(3.0, 1)})
    assert run(case, 3) == {"pennon": [2.0] * 3, "a": [3.0] * 3}
    case = Case("g", "claim", {"pennon": lambda: Measured(2.0, 1), "a": lambda: Measured(3.0, 2)})
    with pytest.raises(AssertionError, match="claim: the answers differ, found 1 of pennon and 2 of a"):
        run(case, 3)


def test_no_answer_is_no_agreement() -> None:
    with pytest.raises(AssertionError, match="no answer to compare"):
        check_equal("claim", {"pennon": None, "a": None})


def test_modules_of_cases_import_their_peers_at_once() -> None:
    """So that no time has an import in it; those of `s3` import in a process of their own, before its time."""
    for path in (BENCHES / "cases").glob("*.py"):
        inner = re.findall(r"^ +(?:import|from) .*$", path.read_text(), re.MULTILINE)
        assert inner == [], path.name


# Results.


def recorded() -> Iterator[tuple[Path, dict[str, Any]]]:
    for name in (*cases.GROUPS, *figure_pages.SPARK, *figure_pages.BENCHES, figure_pages.INSTALL):
        path = figure_pages.RESULTS / f"{name}.json"
        yield path, json.loads(path.read_text())


def test_results_are_complete() -> None:
    assert {path.stem for path in figure_pages.RESULTS.iterdir()} == {path.stem for path, _ in recorded()}
    for path, found in recorded():
        assert re.fullmatch(r"[0-9a-f]{40}", found["commit"])
        # A wheel that was given is measured, which the results name.
        assert found["modified"] is False or "wheel" in found, f"{path.name}: measure again from a clean tree"
        assert found["group"] == path.stem
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found["date"])
        assert {"cores", "processor", "memory_bytes", "system", "file_system"} == found["machine"].keys()
        sides = {"pennon_unsynced", "load", "parquet", "workers", "off", "pages", "gets"}
        peers = {"faiss-cpu" if peer == "faiss" else peer for peer in {*found["peers"]} - sides}
        assert {"python", "pennon", *peers} <= found["versions"].keys()
        assert found["cases"]
        assert all(case["claim"] for case in found["cases"])


@pytest.mark.parametrize("name", [*cases.GROUPS, *figure_pages.SPARK])
def test_results_of_the_page_about_speed_are_of_its_size(name: str) -> None:
    found = figure_pages.results(name)
    if name in figure_pages.SPARK:
        assert name == f"spark-{found['size']['rows'] // 1_000_000}M"
        left_out = ("vectors", "compaction") if name == "spark-20M" else ()
        expected = [case for case in figure_pages.SPARK_CASES if case not in left_out]
        assert [case["name"] for case in found["cases"]] == expected
    else:
        assert found["size"] == dataclasses.asdict(Size())
    rounds = cases.group("synced").ROUNDS if name == "synced" else figures.ROUNDS
    assert found["rounds"] == rounds
    for case in found["cases"]:
        for samples in case.get("seconds", {}).values():
            assert len(samples) == rounds


def test_results_name_no_machine_and_no_path() -> None:
    for path, _ in recorded():
        text = path.read_text()
        assert not re.search(r"/(tmp|home|root|Users|work|var|dev)\b", text), path.name
        node = platform.node()
        assert len(node) < 5 or node not in text


def test_the_size_of_results_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["figures.py", "--tiny", "--rounds=1", "--only=synced", f"--results={tmp_path}"]
    )
    assert figures.main() == 0
    found = json.loads((tmp_path / "synced.json").read_text())
    assert found["size"]["rows"] == TINY.rows
    assert figure_pages.group_part(found).startswith("| case | Pennon, synced | Pennon, unsynced |")


def test_unknown_groups_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["figures.py", "--only=pylance,nothing"])
    with pytest.raises(SystemExit):
        figures.main()
    assert "no group nothing, there are pylance, identity" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--rounds=1", "--rows=1000", "--rounds=1 --results=benches/results", "--rows=0"]
)
def test_results_of_other_sizes_replace_nothing(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(figures, "measure", lambda *_: pytest.fail("it is refused first"))
    monkeypatch.setattr(sys, "argv", ["figures.py", "--only=pylance", *option.split()])
    with pytest.raises(SystemExit):
        figures.main()
    assert re.search("give another folder with --results|--rows must be at least 1", capsys.readouterr().err)


def test_every_call_takes_other_rows() -> None:
    for _, count, repeat in takes(Size()):
        lists = picks(Size().rows, count)
        assert len(lists) >= 1 + 2 * figures.ROUNDS * repeat
        assert len({row for list_ in lists for row in list_}) == len(lists) * count


def test_the_catalog_of_pyiceberg_does_not_sync(tmp_path: Path) -> None:
    tables = group("formats").Tables(tmp_path, pa.table({"id": [1]}))
    with tables.catalog.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 0


def test_answers_from_s3_are_compared_by_all_values() -> None:
    rows = pa.table({"id": [2, 1], "value": [0.5, 1.5], "text": ["a", "b"]})
    found = object_store.compared(rows)
    assert object_store.compared(rows.take([1, 0]).select(["text", "value", "id"])) == found
    assert object_store.compared(rows.set_column(2, "text", [["a", "c"]])) != found
    assert object_store.compared(rows.slice(1)) != found
    assert object_store.compared(7) == 7


def test_what_is_installed_is_pinned() -> None:
    pinned = (ROOT / "requirements" / "constraints.txt").read_text().lower()
    lines = (BENCHES / "requirements.txt").read_text().splitlines()
    for line in [line for line in lines if line and not line.startswith(("#", "-c"))]:
        name = re.split(r"[\[=]", line)[0].lower()
        assert "==" in line or re.search(rf"^{re.escape(name)}==", pinned, re.MULTILINE), line


def test_cold_files_are_not_in_memory(tmp_path: Path) -> None:
    cold = cases.group("cold")
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    assert cold.resident(path) == 1
    cold.drop(path)
    if records.file_system(str(tmp_path)) != "tmpfs":
        assert cold.resident(path) <= cold.REMAINING


# The page.


def test_ratios_say_how_many_times_faster() -> None:
    assert figure_pages.times(1.0, 2.5) == "2.5"
    assert figure_pages.times(0.001, 0.2) == "200"
    assert figure_pages.times(2.0, 1.0) == "**0.50**"
    assert figure_pages.times(1.0, 0.998) == "1.00"
    assert figure_pages.times(1.0, 0.994) == "**0.99**"
    assert figure_pages.times(1.0, 12_345) == "12,345"


def test_syncing_is_slower_by_a_ratio_above_one() -> None:
    found = figure_pages.results("synced")
    found["cases"] = found["cases"][:1]
    found["cases"][0]["seconds"] = {"pennon": [0.006], "pennon_unsynced": [0.002]}
    shown = figure_pages.group_part(found)
    assert "| times slower than unsynced |" in shown
    assert "| 6.0 ms | 2.0 ms | 3.0 |" in shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1.5, "1.5 s"), (0.0123, "12.3 ms"), (0.5e-6, "0.50 µs"), (0.00042, "420 µs"), (0.0, "0 µs")],
)
def test_times_have_units(seconds: float, shown: str) -> None:
    assert figure_pages.duration(seconds) == shown


def test_a_change_of_results_changes_the_page(tmp_path: Path) -> None:
    found = figure_pages.results("pylance")
    before = figure_pages.group_part(found)
    case = found["cases"][0]
    case["seconds"]["pennon"] = [value * 1e3 for value in case["seconds"]["pennon"]]
    assert figure_pages.group_part(found) != before
    assert case["claim"] in before
    identity = figure_pages.results("identity")
    plot = figure_pages.plot(identity)
    identity["cases"][0]["measures"]["manifest_bytes"]["pennon"][-1] = [10**6]
    assert figure_pages.plot(identity) != plot


def test_steps_of_an_installation_are_those_of_the_page(tmp_path: Path) -> None:
    wheel = tmp_path / "pennon-1.2.3.whl"
    wheel.write_bytes(bytes(2_300_000))
    (steps,) = [[case["name"] for case in figure_pages.results("install")["cases"]]]
    versions = dict.fromkeys(("pennon", "pyarrow", "click", "rich", "pip"), "1.0")
    trials = [
        try_wheel.Trial(dict.fromkeys(steps, seconds), {"versions": versions, "pennon": 6e6, "all": 99e6})
        for seconds in (0.1, 0.2, 0.9)
    ]
    found = try_wheel.recorded(records.Record(), wheel, trials)
    part = figure_pages.install_part(found)
    assert part.count("| 200 ms |") == len(steps)
    assert "`pennon-1.2.3.whl` has 2.3 MB, and 6.0 MB once it is installed: 99.0 MB with pyarrow 1.0" in part
    assert "commit" not in part
    source = Path(try_wheel.__file__ or "").read_text()
    assert [name for name in steps if name not in source] == []


def test_a_command_in_a_clone_is_timed_and_one_that_fails_ends_it(tmp_path: Path) -> None:
    found = try_checkout.timed([sys.executable, "-c", "open('made', 'w').close(); sum(range(10**7))"], tmp_path)
    assert (tmp_path / "made").exists()
    assert found.keys() == try_checkout.SIDES.keys()
    assert all(0.01 < seconds < 60 for (seconds,) in found.values())
    with pytest.raises(subprocess.CalledProcessError):
        try_checkout.timed([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


@pytest.mark.parametrize(
    ("pennon", "peer", "shown"),
    [
        (0.1, 0.15, "| 100 ms |  | 150 ms |  |  | 90.0 ms | 1.5 |"),
        (0.1, 0.085, "| 100 ms |  | 85.0 ms |  |  | 90.0 ms | **0.85** |"),
    ],
)
def test_where_pennon_is_slower_in_spark_is_bold(pennon: float, peer: float, shown: str) -> None:
    found = figure_pages.results("spark-5M")
    (feed,) = [case for case in found["cases"] if case["name"] == "feed"]
    found["cases"] = [feed | {"seconds": {"pennon": [pennon], "delta": [peer], "workers": [0.09]}}]
    assert shown in figure_pages.spark_part(found)


@pytest.mark.parametrize(("load", "is_marked"), [(1.5, False), (4.1, True)])
def test_a_busy_machine_is_marked(load: float, is_marked: bool) -> None:
    found = figure_pages.results("synced") | {"load_before": [load, 0, 0]}
    assert found["machine"]["cores"] == 2
    assert ("other programs ran" in figure_pages.caption(found)) is is_marked


def test_importing_pages_needs_no_peer() -> None:
    source = Path(importlib.import_module("figure_pages").__file__ or "").read_text()
    assert not re.search(r"^(?:import|from) (?:pennon|lance|cases|figures)", source, re.MULTILINE)
