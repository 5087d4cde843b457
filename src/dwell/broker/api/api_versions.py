"""ApiVersions: which APIs and versions this broker serves. Answered from the table of `api/table.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dwell.broker.wire.error import Error
from dwell.broker.wire.message.cluster import API_VERSIONS
from dwell.broker.wire.message.produce import PRODUCE

if TYPE_CHECKING:
    from dwell.broker.request import Request


# Since version 3 a client says what it is.
CLIENT_NAMED = 3
NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

# Advertised like Kafka does (KAFKA-18659): librdkafka before 2.8.1 needs to see the old versions of Produce, and uses
# a newer one. They are not served.
ADVERTISED_FROM = {PRODUCE.key: 0}


def handle(request: Request) -> object:
    from dwell.broker.api.table import SERVED

    body = request.body
    if request.version >= CLIENT_NAMED and not (
        NAME.fullmatch(body.client_software_name) and NAME.fullmatch(body.client_software_version)
    ):
        return API_VERSIONS.Response(error_code=request.failed(Error.INVALID_REQUEST))
    keys = [
        API_VERSIONS.Response.ApiVersion(
            api_key=served.api.key,
            min_version=ADVERTISED_FROM.get(served.api.key, served.api.versions.first),
            max_version=served.api.versions.last,
        )
        for served in SERVED
    ]
    return API_VERSIONS.Response(api_keys=keys)


def unsupported() -> object:
    """The answer to a version we do not know, always in the form of version 0: what we do know."""
    versions = API_VERSIONS.versions
    key = API_VERSIONS.Response.ApiVersion(
        api_key=API_VERSIONS.key, min_version=versions.first, max_version=versions.last
    )
    return API_VERSIONS.Response(error_code=Error.UNSUPPORTED_VERSION, api_keys=[key])
