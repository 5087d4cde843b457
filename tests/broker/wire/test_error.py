"""Error codes beside kio's, which come from Kafka's own class."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from dwell.broker.wire import Error


def test_codes_names_and_retriability_are_kafkas() -> None:
    ours = {(int(error), error.name, error.retriable) for error in Error}
    assert ours == {(int(error), error.name.upper(), error.retriable) for error in ErrorCode}


def test_a_code_packs_and_prints_as_kafka_says() -> None:
    assert Error(6) is Error.NOT_LEADER_OR_FOLLOWER
    assert int(Error.NONE) == 0
    assert not Error.NONE.retriable
    assert Error.REQUEST_TIMED_OUT.retriable
