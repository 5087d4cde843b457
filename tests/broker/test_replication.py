"""Leaders and followers: in-sync sets, high watermarks, truncation, coming back."""

from __future__ import annotations

import pytest

from dwell.broker.host import Host
from dwell.broker.record.record import Record, read_records, write_batch
from tests.broker.core import Client, error, led, make_host, records


@pytest.fixture
def host() -> Host:
    return make_host(3, {"orders": {"replication": 3}})


def ends(host: Host) -> list[int]:
    return [broker.partitions["orders", 0].log.end_offset for broker in host.brokers]


def values(host: Host, broker: int) -> list[bytes | None]:
    log = host.brokers[broker].partitions["orders", 0].log
    return [record.value for batch in log.batches() for record in read_records(batch)]


def test_followers_hold_the_same_batch_not_a_copy(host: Host) -> None:
    Client(host).produce(records(b"tea"))
    batches = [next(broker.partitions["orders", 0].log.batches()) for broker in host.brokers]
    assert batches[0] is batches[1] is batches[2]


def test_a_lag_holds_back_the_high_watermark_by_one_pause(host: Host) -> None:
    host.brokers[1].lag_ms = 20
    Client(host).produce(records(b"tea"), acks=1)
    assert (ends(host), led(host).high_watermark) == ([1, 1, 1], 0)
    host.advance(19)
    assert led(host).high_watermark == 0
    host.advance(1)
    assert led(host).high_watermark == 1


def test_a_follower_leaves_the_isr_when_it_was_behind_for_longer_than_the_limit(host: Host) -> None:
    host.advance(100_000)
    host.freeze(2)
    host.advance(100_000)
    assert led(host).image.isr == (0, 1, 2)  # it has everything: nothing was written
    Client(host).produce(records(b"tea"), acks=1)
    host.advance(1)
    assert led(host).image.isr == (0, 1)  # and was last known to be there long ago
    host.thaw(2)
    host.agenda.drain()
    assert led(host).image.isr == (0, 1, 2)


def test_a_follower_that_fetches_is_never_behind_however_long_nothing_comes(host: Host) -> None:
    host.advance(10_000_000)
    host.brokers[2].lag_ms = 29_000
    for _ in range(5):
        Client(host).produce(records(b"tea"), acks=1)
        host.advance(29_000)
    assert led(host).image.isr == (0, 1, 2)


def test_what_only_the_old_leader_had_is_cut_off_when_it_comes_back(host: Host) -> None:
    Client(host).produce(records(b"kept"))
    host.freeze(1)
    host.freeze(2)
    for number in range(3):
        Client(host).produce(records(b"lost %d" % number), acks=1)
    host.kill(0)
    host.thaw(1)
    host.thaw(2)
    host.agenda.drain()
    assert led(host).broker.id == 1
    Client(host, 1).produce(records(b"new"))
    host.restart(0)
    host.agenda.drain()
    assert [values(host, broker) for broker in range(3)] == [[b"kept", b"new"]] * 3
    assert led(host).image.isr == (0, 1, 2)
    what = [(event, offset) for _, event, _, offset in host.brokers[0].partitions["orders", 0].history]
    assert ("truncated", 1) in what


def test_a_broker_without_its_data_fetches_everything_again(host: Host) -> None:
    for number in range(5):
        Client(host).produce(records(b"%d" % number))
    host.kill(2)
    host.restart(2, wipe=True)
    host.agenda.drain()
    assert ends(host) == [5, 5, 5]
    assert led(host).image.isr == (0, 1, 2)


def test_a_follower_that_missed_a_deletion_starts_where_the_leader_starts(host: Host) -> None:
    for number in range(5):
        Client(host).produce(records(b"%d" % number))
    host.kill(2)
    led(host).delete_before(5)
    Client(host).produce(records(b"5"))
    host.restart(2)
    host.agenda.drain()
    log = host.brokers[2].partitions["orders", 0].log
    assert (log.start_offset, log.end_offset) == (5, 6)
    host.kill(1)
    host.restart(1, wipe=True)
    host.agenda.drain()
    log = host.brokers[1].partitions["orders", 0].log
    assert (log.start_offset, log.end_offset) == (5, 6)


def test_without_a_living_in_sync_replica_there_is_no_leader_until_one_comes_back(host: Host) -> None:
    Client(host).produce(records(b"tea"))
    for broker in (1, 2, 0):
        host.kill(broker)
    image = host.controller.image.partition("orders", 0)
    assert image is not None
    assert (image.leader, image.isr) == (-1, (0,))
    host.restart(1)
    image = host.controller.image.partition("orders", 0)
    assert image is not None
    assert image.leader == -1
    host.restart(0)
    host.agenda.drain()
    assert led(host).broker.id == 0
    assert values(host, 1) == [b"tea"]


def test_others_lead_after_the_session_of_a_dead_broker(host: Host) -> None:
    patient = make_host(3, {"orders": {"replication": 3}}, session_ms=9_000)
    patient.kill(0)
    patient.advance(8_999)
    image = patient.controller.image.partition("orders", 0)
    assert image is not None
    assert image.leader == 0
    patient.advance(1)
    assert led(patient).broker.id == 1


def test_an_isolated_leader_is_replaced_and_learns_it_when_healed(host: Host) -> None:
    host.isolate(0)
    host.agenda.drain()
    assert led(host).broker.id == 1
    assert host.brokers[0].partitions["orders", 0].is_leader  # it does not know
    Client(host, 1).produce(records(b"tea"))
    host.heal(0)
    host.agenda.drain()
    assert not host.brokers[0].partitions["orders", 0].is_leader
    assert ends(host) == [1, 1, 1]
    assert led(host).image.isr == (0, 1, 2)


def test_a_broker_that_stops_in_order_hands_over_first(host: Host) -> None:
    client = Client(host)
    host.freeze(2)
    client.produce(records(b"tea"))
    host.stop(0)
    host.agenda.drain()
    assert led(host).broker.id == 1
    # What waited there was told before the connection ended.
    assert [error(answer) for answer in client.produced()] == ["NOT_LEADER_OR_FOLLOWER"]
    assert client.connection.is_closed


def test_a_paused_controller_changes_nothing_until_it_goes_on(host: Host) -> None:
    host.controller.is_paused = True
    host.kill(0)
    host.agenda.drain()
    assert host.controller.num_asked == 1
    assert host.brokers[1].image.partitions["orders"][0].leader == 0
    host.controller.is_paused = False
    host.controller.decide()
    assert led(host).broker.id == 1


def test_a_follower_with_late_metadata_does_not_follow_the_wrong_leader(host: Host) -> None:
    host.brokers[2].metadata_lag_ms = 100
    host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    client = Client(host, 1)
    assert client.produce(records(b"tea")) == []
    assert ends(host) == [1, 1, 0]
    host.advance(100)
    assert [error(answer) for answer in client.produced()] == ["NONE"]
    assert ends(host) == [1, 1, 1]


def test_a_topic_created_again_is_not_fetched_from_its_predecessor(host: Host) -> None:
    Client(host).produce(records(b"old"))
    host.brokers[0].metadata_lag_ms = 50
    host.controller.delete_topic("orders")
    host.controller.create_topic("orders", [(0, 1, 2)], {})
    host.agenda.drain()
    # The followers know of the new topic, the leader still leads the old one, in the same epoch.
    assert host.brokers[0].partitions["orders", 0].log.end_offset == 1
    assert [host.brokers[broker].partitions["orders", 0].log.end_offset for broker in (1, 2)] == [0, 0]
    host.advance(50)
    (answer,) = Client(host).produce(records(b"new"))
    assert error(answer) == "NONE"
    assert values(host, 2) == [b"new"]


def test_a_follower_told_off_by_a_leader_that_leads_again_fetches_again(host: Host) -> None:
    # Both happen before the follower hears of the first.
    leader = led(host)
    follower = host.brokers[1].partitions["orders", 0]
    leader.is_leader = False
    host.brokers[0].check("replica_fetch", leader)
    leader.is_leader = True
    host.leader_ready(leader)
    assert follower.fetcher.is_busy
    host.agenda.drain()
    assert follower.fetcher.fetches_from is leader
    assert leader.followers[1].waiting


def test_a_week_passes_in_a_few_steps(host: Host) -> None:
    host.advance(7 * 86_400_000)
    assert led(host).image.isr == (0, 1, 2)


def test_a_dead_follower_holds_nobody_up(host: Host) -> None:
    client = Client(host)
    client.produce(records(b"tea"))
    host.kill(2)
    host.agenda.drain()
    assert led(host).image.isr == (0, 1)
    assert [error(answer) for answer in client.produce(records(b"coffee"))] == ["NONE"]


def test_a_caught_up_follower_that_cannot_join_holds_the_others_up_for_one_lag_only(host: Host) -> None:
    client = Client(host)
    host.kill(2)
    host.agenda.drain()
    leader = led(host)
    leader.pending_isr = leader.image.isr  # its one question to the controller is another one
    host.restart(2)
    host.agenda.drain()
    leader.pending_isr = None
    assert leader.image.isr == (0, 1)
    host.freeze(2)
    client.produce(records(b"tea"), timeout_ms=60_000)
    assert leader.high_watermark == 0
    host.advance(30_001)
    assert [error(answer) for answer in client.produced()] == ["NONE"]


@pytest.mark.parametrize("way", ["isolated", "late"])
def test_the_death_of_a_leader_of_yesterday_leaves_the_followers_of_the_new_one_alone(host: Host, way: str) -> None:
    if way == "isolated":
        host.isolate(0)
    else:
        host.brokers[0].metadata_lag_ms = 1_000
        host.controller.move_leader("orders", 0, 1)
    host.agenda.drain()
    assert host.brokers[0].partitions["orders", 0].is_leader  # it has not heard yet
    host.kill(0)
    host.agenda.drain()
    assert [error(answer) for answer in Client(host, 1).produce(records(b"tea"))] == ["NONE"]


@pytest.mark.parametrize("broker", [0, 1])
def test_a_broker_without_its_data_neither_leads_nor_counts_however_slow_the_controller(
    host: Host, broker: int
) -> None:
    Client(host).produce(records(b"tea"))
    host.controller.delay_ms = 100
    host.restart(broker, wipe=True)
    host.agenda.drain()
    assert not host.brokers[broker].partitions["orders", 0].is_leader
    host.restart(broker)
    host.agenda.drain()
    assert not host.brokers[broker].partitions["orders", 0].is_leader
    host.advance(1_000)
    assert [values(host, one) for one in range(3)] == [[b"tea"]] * 3
    assert led(host).image.isr == (0, 1, 2)
    assert led(host).image.partition_epoch == (3 if broker == 0 else 2)  # it was out and came back


def test_a_broker_that_restarts_where_nobody_reaches_it_is_not_alive(host: Host) -> None:
    host.isolate(1)
    host.restart(1)
    host.agenda.drain()
    assert not host.controller.image.alive(1)
    host.heal(1)
    host.agenda.drain()
    assert led(host).image.isr == (0, 1, 2)


def test_a_shorter_lag_cuts_the_pause_short(host: Host) -> None:
    client = Client(host)
    host.lag(1, 60_000)
    client.produce(records(b"tea"), timeout_ms=10_000)
    host.lag(1, 20)
    host.advance(19)
    assert client.produced() == []
    host.lag(1, 0)
    host.agenda.drain()
    assert [error(answer) for answer in client.produced()] == ["NONE"]


def test_a_follower_that_starts_over_forgets_how_far_it_was(host: Host) -> None:
    Client(host).produce(records(b"tea"))
    follower = host.brokers[1].partitions["orders", 0]
    follower.append_fetched([], 1, 0)
    assert follower.high_watermark == 1
    follower.start_over(0)
    assert (follower.log.end_offset, follower.high_watermark, follower.high_position) == (
        0,
        0,
        follower.log.end_position,
    )


def test_closing_in_the_middle_of_work_is_no_error(host: Host) -> None:
    leader = led(host)
    leader.append(write_batch([Record(offset=0, timestamp_ms=0, key=None, value=b"tea")]))
    leader.broker.check("replica_fetch", leader)  # what the followers get is on the agenda now
    host.close()
    host.agenda.drain()
    assert ends(host) == [1, 0, 0]
