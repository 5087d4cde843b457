"""Topics and their records: create, delete, grow, cut."""

from __future__ import annotations

from dwell.broker.wire.api import Api

CREATE_TOPICS = Api(
    19,
    "create_topics",
    "2-7",
    flexible=5,
    request="""
    2+   topics                [CreatableTopic]
    2+     name                string
    2+     num_partitions      int32
    2+     replication_factor  int16
    2+     assignments         [CreatableReplicaAssignment]
    2+       partition_index   int32
    2+       broker_ids        [int32]
    2+     configs             [CreatableTopicConfig]
    2+       name              string
    2+       value             string?
    2+   timeout_ms            int32 = 60000
    2+   validate_only         bool
""",
    response="""
    2+   throttle_time_ms           int32
    2+   topics                     [CreatableTopicResult]
    2+     name                     string
    7+     topic_id                 uuid
    2+     error_code               int16
    2+     error_message            string?
    5+     topic_config_error_code  int16  tag 0
    5+     num_partitions           int32 = -1
    5+     replication_factor       int16 = -1
    5+     configs                  [CreatableTopicConfigs]?
    5+       name                   string
    5+       value                  string?
    5+       read_only              bool
    5+       config_source          int8 = -1
    5+       is_sensitive           bool
""",
)

DELETE_TOPICS = Api(
    20,
    "delete_topics",
    "1-6",
    flexible=4,
    request="""
    6+   topics       [DeleteTopicState]
    6+     name       string? = null
    6+     topic_id   uuid
    1-5  topic_names  [string]
    1+   timeout_ms   int32
""",
    response="""
    1+   throttle_time_ms  int32
    1+   responses         [DeletableTopicResult]
    1+     name            string?6+
    6+     topic_id        uuid
    1+     error_code      int16
    5+     error_message   string? = null
""",
)

CREATE_PARTITIONS = Api(
    37,
    "create_partitions",
    "0-3",
    flexible=2,
    request="""
    0+   topics          [CreatePartitionsTopic]
    0+     name          string
    0+     count         int32
    0+     assignments   [CreatePartitionsAssignment]?
    0+       broker_ids  [int32]
    0+   timeout_ms      int32
    0+   validate_only   bool
""",
    response="""
    0+   throttle_time_ms  int32
    0+   results           [CreatePartitionsTopicResult]
    0+     name            string
    0+     error_code      int16
    0+     error_message   string? = null
""",
)

DELETE_RECORDS = Api(
    21,
    "delete_records",
    "0-2",
    flexible=2,
    request="""
    0+   topics               [DeleteRecordsTopic]
    0+     name               string
    0+     partitions         [DeleteRecordsPartition]
    0+       partition_index  int32
    0+       offset           int64
    0+   timeout_ms           int32
""",
    response="""
    0+   throttle_time_ms     int32
    0+   topics               [DeleteRecordsTopicResult]
    0+     name               string
    0+     partitions         [DeleteRecordsPartitionResult]
    0+       partition_index  int32
    0+       low_watermark    int64
    0+       error_code       int16
""",
)
