"""Jobs: work on one table that threads, processes or machines share, published in one commit.

`plan_...` pins a version and divides the work into tasks. A task is small and picklable, has a JSON form, and runs
wherever the table can be reached, more than once or at the same time as a twin; its result is small as well.
`commit` publishes all results in one version, and gives the same answer when it is repeated.
[run][pennon.jobs.run] does all of that with an executor of `concurrent.futures`.

Examples
--------
>>> import pennon
>>> from pennon import jobs
>>> table = pennon.write_dataset({"a": list(range(100))}, "memory://jobs", max_rows_per_file=10)
>>> plan = jobs.plan_delete(table, "a % 2 = 0", tasks=4)
>>> plan
JobPlan('delete', 'memory://jobs', version=1, tasks=4)
>>> results = [task.run() for task in plan.tasks]  # each wherever you like
>>> done = plan.commit(results)
>>> done.rows, done.dataset.version
(50, 2)

With an executor:

>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor(2) as executor:
...     done = jobs.run(jobs.plan_update(done.dataset, {"a": "a + 1"}, tasks=4), executor=executor)
>>> done.rows, done.dataset.version
(50, 3)
"""

from typing import TYPE_CHECKING

from pennon._lazy import attach as _attach
from pennon._progress import Progress

if TYPE_CHECKING:
    from pennon.jobs._column_planning import plan_add_columns, plan_join_columns, plan_update_columns
    from pennon.jobs._plan import JobPlan, JobReport
    from pennon.jobs._planning import (
        plan_append,
        plan_change_rows,
        plan_compaction,
        plan_delete,
        plan_merge,
        plan_overwrite,
        plan_scan,
        plan_update,
        plan_verify,
    )
    from pennon.jobs._run import run
    from pennon.jobs._task import Task, TaskResult

__all__ = [
    "JobPlan",
    "JobReport",
    "Progress",
    "Task",
    "TaskResult",
    "plan_add_columns",
    "plan_append",
    "plan_change_rows",
    "plan_compaction",
    "plan_delete",
    "plan_join_columns",
    "plan_merge",
    "plan_overwrite",
    "plan_scan",
    "plan_update",
    "plan_update_columns",
    "plan_verify",
    "run",
]

# The package imports none of them: a thread that waits for the package while it imports a module, and one that
# imports the package, would wait for each other.
_attach(
    __name__,
    names={
        "_column_planning": ["plan_add_columns", "plan_join_columns", "plan_update_columns"],
        "_plan": ["JobPlan", "JobReport"],
        "_planning": [
            "plan_append",
            "plan_change_rows",
            "plan_compaction",
            "plan_delete",
            "plan_merge",
            "plan_overwrite",
            "plan_scan",
            "plan_update",
            "plan_verify",
        ],
        "_run": ["run"],
        "_task": ["Task", "TaskResult"],
    },
    modules=[],
)
