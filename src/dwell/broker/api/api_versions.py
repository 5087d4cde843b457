"""ApiVersions: which APIs and versions this broker serves. Answered from the table of `api/table.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dwell.broker.wire.error import Error
from dwell.broker.wire.message.cluster import API_VERSIONS

if TYPE_CHECKING:
    from dwell.broker.request import Request


def handle(request: Request) -> object:
    from dwell.broker.api.table import SERVED

    keys = [
        API_VERSIONS.Response.ApiVersion(
            api_key=served.api.key, min_version=served.api.versions.first, max_version=served.api.versions.last
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
