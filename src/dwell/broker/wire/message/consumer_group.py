"""Consumer groups whose assignment the broker makes (KIP-848)."""

from __future__ import annotations

from dwell.broker.wire.api import Api

CONSUMER_GROUP_HEARTBEAT = Api(
    68,
    "consumer_group_heartbeat",
    "0-1",
    flexible=0,
    request="""
    0+   group_id                string
    0+   member_id               string
    0+   member_epoch            int32
    0+   instance_id             string? = null
    0+   rack_id                 string? = null
    0+   rebalance_timeout_ms    int32 = -1
    0+   subscribed_topic_names  [string]? = null
    1+   subscribed_topic_regex  string? = null
    0+   server_assignor         string? = null
    0+   topic_partitions        [TopicPartitions]? = null
    0+     topic_id              uuid
    0+     partitions            [int32]
""",
    response="""
    0+   throttle_time_ms       int32
    0+   error_code             int16
    0+   error_message          string? = null
    0+   member_id              string? = null
    0+   member_epoch           int32
    0+   heartbeat_interval_ms  int32
    0+   assignment             {Assignment}? = null
    0+     topic_partitions     [TopicPartitions]
    0+       topic_id           uuid
    0+       partitions         [int32]
""",
)

CONSUMER_GROUP_DESCRIBE = Api(
    69,
    "consumer_group_describe",
    "0-1",
    flexible=0,
    request="""
    0+   group_ids                      [string]
    0+   include_authorized_operations  bool
""",
    response="""
    0+   throttle_time_ms            int32
    0+   groups                      [DescribedGroup]
    0+     error_code                int16
    0+     error_message             string? = null
    0+     group_id                  string
    0+     group_state               string
    0+     group_epoch               int32
    0+     assignment_epoch          int32
    0+     assignor_name             string
    0+     members                   [Member]
    0+       member_id               string
    0+       instance_id             string? = null
    0+       rack_id                 string? = null
    0+       member_epoch            int32
    0+       client_id               string
    0+       client_host             string
    0+       subscribed_topic_names  [string]
    0+       subscribed_topic_regex  string? = null
    0+       assignment              {Assignment}
    0+         topic_partitions      [TopicPartitions]
    0+           topic_id            uuid
    0+           topic_name          string
    0+           partitions          [int32]
    0+       target_assignment       {Assignment}
    1+       member_type             int8 = -1
    0+     authorized_operations     int32 = -2147483648
""",
)
