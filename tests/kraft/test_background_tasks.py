"""Tasks that an object starts by itself."""

import trio
from trio.testing import wait_all_tasks_blocked

from kraft.background_tasks import BackgroundTasks


async def test_task_that_is_started_before_the_run_begins_with_it() -> None:
    tasks, begun = BackgroundTasks(), list[str]()

    async def task(name: str) -> None:
        begun.append(name)

    tasks.start_soon(task, "early")
    await wait_all_tasks_blocked()
    assert begun == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tasks.run)
        await wait_all_tasks_blocked()
        assert begun == ["early"]
        tasks.start_soon(task, "late")
        await wait_all_tasks_blocked()
        assert begun == ["early", "late"]
        nursery.cancel_scope.cancel()
    tasks.start_soon(task, "after the end")
    await wait_all_tasks_blocked()
    assert begun == ["early", "late"]
    assert tasks.has_ended
