"""Handles: a broker, a partition and the controller of a running cluster, to look at and to break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from dwell.broker.replica.partition import Partition
from dwell.broker.topic import StoredRecord, leader, stored_records
from dwell.errors import InvalidArgument

if TYPE_CHECKING:
    from dwell.broker.broker import Broker
    from dwell.broker.cluster import Cluster
    from dwell.broker.controller.image import PartitionImage
    from dwell.broker.host import Host
    from dwell.broker.server.listener import Listener
    from dwell.purgatory import Purgatory


@final
class BrokerHandle:
    """One broker. Each call takes effect before it returns."""

    def __init__(self, cluster: Cluster, broker_id: int, address: str, listener: Listener) -> None:
        self._cluster = cluster
        self.id = broker_id
        self.address = address
        self._listener = listener

    # Slower

    def freeze(self) -> None:
        """Its followers stop fetching; clients are still answered."""
        self._cluster.call(lambda host: host.freeze(self.id))

    def thaw(self) -> None:
        self._cluster.call(lambda host: host.thaw(self.id))

    def lag(self, ms: int) -> None:
        """Its followers pause for `ms` before each fetch; 0: no more."""
        _not_negative("ms", ms)
        self._cluster.call(lambda host: setattr(host.brokers[self.id], "lag_ms", ms))

    def metadata_lag(self, ms: int) -> None:
        """It sees the controller's changes `ms` late; 0: no more."""
        _not_negative("ms", ms)
        self._cluster.call(lambda host: setattr(host.brokers[self.id], "metadata_lag_ms", ms))

    # Away

    def kill(self) -> None:
        """It dies: connections are reset, what waits is never answered, its logs stay."""
        self._go_down(lambda host: host.kill(self.id))

    def stop(self) -> None:
        """It leaves in order: others lead first."""
        self._go_down(lambda host: host.stop(self.id))

    def restart(self, *, wipe: bool = False) -> None:
        """It comes back on its port with its logs, or with `wipe` without; first as a follower."""
        if self.is_alive:
            self.kill()
        self._cluster.call(lambda host: host.restart(self.id, wipe=wipe))
        self._cluster.run(self._listener.start())

    def isolate(self) -> None:
        """Neither clients nor other brokers nor the controller reach it, but it runs on."""
        self._cluster.call(lambda host: host.isolate(self.id))

    def heal(self) -> None:
        self._cluster.call(lambda host: host.heal(self.id))

    def _go_down(self, how: Any) -> None:
        def go_down(host: Host) -> None:
            self._listener.stop()
            how(host)

        self._cluster.call(go_down)

    # To look at

    @property
    def is_alive(self) -> bool:
        return self._cluster.call(lambda host: host.brokers[self.id].is_alive)

    @property
    def is_frozen(self) -> bool:
        return self._cluster.call(lambda host: host.brokers[self.id].is_frozen)

    @property
    def purgatories(self) -> list[Purgatory]:
        """Those that were used so far."""
        return self._cluster.call(lambda host: host.brokers[self.id].purgatories)

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.address}>"


@final
class PartitionHandle:
    """One partition. Each property is read when it is asked for."""

    def __init__(self, cluster: Cluster, topic: str, index: int) -> None:
        self._cluster = cluster
        self.topic = topic
        self.index = index

    def _image(self, host: Host) -> PartitionImage:
        image = host.controller.image.partition(self.topic, self.index)
        if image is None:
            raise InvalidArgument(f"{self.topic}-{self.index} was deleted")
        return image

    def _leader(self, host: Host) -> Partition:
        found = leader(host, self.topic, self.index)
        if found is None:
            raise InvalidArgument(f"{self.topic}-{self.index} has no leader")
        return found

    @property
    def leader(self) -> int:
        """The broker that leads; -1 if none does."""
        return self._cluster.call(lambda host: self._image(host).leader)

    @property
    def epoch(self) -> int:
        return self._cluster.call(lambda host: self._image(host).leader_epoch)

    @property
    def replicas(self) -> tuple[int, ...]:
        return self._cluster.call(lambda host: self._image(host).replicas)

    @property
    def isr(self) -> tuple[int, ...]:
        return self._cluster.call(lambda host: self._image(host).isr)

    @property
    def high_watermark(self) -> int:
        return self._cluster.call(lambda host: self._leader(host).high_watermark)

    @property
    def last_stable(self) -> int:
        return self._cluster.call(lambda host: self._leader(host).last_stable_offset)

    @property
    def log_start(self) -> int:
        return self._cluster.call(lambda host: self._leader(host).log.start_offset)

    def log_end(self, replica: int | None = None) -> int:
        """The log end at one replica; at the leader, unless told."""

        def find(host: Host) -> int:
            if replica is None:
                return self._leader(host).log.end_offset
            broker: Broker | None = host.brokers[replica] if replica in range(len(host.brokers)) else None
            found = None if broker is None else broker.partitions.get((self.topic, self.index))
            if found is None:
                raise InvalidArgument(f"broker {replica!r} has no replica of {self.topic}-{self.index}, or is down")
            return found.log.end_offset

        return self._cluster.call(find)

    def records(self) -> list[StoredRecord]:
        return self._cluster.call(lambda host: stored_records(host, self.topic, self.index))

    def move_leader(self, to: int) -> None:
        """Let an in-sync replica lead."""

        def move(host: Host) -> None:
            image = self._image(host)
            if to not in image.isr or not host.controller.image.alive(to):
                raise InvalidArgument(f"broker {to!r} cannot lead {self.topic}-{self.index}: in sync are {image.isr}")
            host.controller.move_leader(self.topic, self.index, to)

        self._cluster.call(move)

    def elect(self, *, unclean: bool = False) -> None:
        """Elect the preferred leader; with `unclean` any living replica, if there is no leader."""
        self._cluster.call(lambda host: host.controller.elect_leader(self.topic, self.index, unclean=unclean))

    def __repr__(self) -> str:
        return f"<partition {self.topic}-{self.index}>"


@final
class ControllerHandle:
    """The controller: slow it down or stop it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def id(self) -> int:
        """The broker that clients are told is the controller."""
        return self._cluster.call(lambda host: host.controller.id)

    def delay(self, ms: int) -> None:
        """Each change is decided `ms` after it was asked for; 0: at once."""
        _not_negative("ms", ms)
        self._cluster.call(lambda host: setattr(host.controller, "delay_ms", ms))

    def pause(self) -> None:
        """Decide nothing until `resume`."""
        self._cluster.call(lambda host: setattr(host.controller, "is_paused", True))

    def resume(self) -> None:
        def resume(host: Host) -> None:
            host.controller.is_paused = False
            host.controller.decide()

        self._cluster.call(resume)


def _not_negative(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgument(f"{name} must be a whole number that is not negative, not {value!r}")
