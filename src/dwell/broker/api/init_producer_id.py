"""InitProducerId: an id for an idempotent producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.broker.wire.error import Error
from dwell.broker.wire.message.produce import INIT_PRODUCER_ID

if TYPE_CHECKING:
    from dwell.broker.request import Request


def handle(request: Request) -> object:
    body = request.body
    has_id, has_epoch = body.producer_id >= 0, body.producer_epoch >= 0
    if body.transactional_id is not None or has_id != has_epoch:
        return INIT_PRODUCER_ID.Response(error_code=request.failed(Error.INVALID_REQUEST), producer_epoch=-1)
    # Without a transaction there is nothing to fence: also a producer that names its old id gets a new one.
    return INIT_PRODUCER_ID.Response(producer_id=request.broker.host.new_producer_id(), producer_epoch=0)
