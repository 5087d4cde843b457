"""The timing wheel on an asyncio event loop: no thread, one loop timer for any number of timeouts.

async with LoopTimer() as timer:
    await timer.sleep(250)
    async with timer.timeout(30_000):
        reply = await request()
"""

from dwell.aio.loop_timer import LoopTimer
from dwell.aio.timeout import Timeout

__all__ = ["LoopTimer", "Timeout"]
