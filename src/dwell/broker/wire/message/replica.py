"""Leaders, replicas and the directories they lie in."""

from __future__ import annotations

from dwell.broker.wire.api import Api

ELECT_LEADERS = Api(
    43,
    "elect_leaders",
    "0-2",
    flexible=2,
    request="""
    1+   election_type     int8
    0+   topic_partitions  [TopicPartitions]?
    0+     topic           string
    0+     partitions      [int32]
    0+   timeout_ms        int32 = 60000
""",
    response="""
    0+   throttle_time_ms          int32
    1+   error_code                int16
    0+   replica_election_results  [ReplicaElectionResult]
    0+     topic                   string
    0+     partition_result        [PartitionResult]
    0+       partition_id          int32
    0+       error_code            int16
    0+       error_message         string?
""",
)

ALTER_PARTITION_REASSIGNMENTS = Api(
    45,
    "alter_partition_reassignments",
    "0-1",
    flexible=0,
    request="""
    0+   timeout_ms                       int32 = 60000
    1+   allow_replication_factor_change  bool = true
    0+   topics                           [ReassignableTopic]
    0+     name                           string
    0+     partitions                     [ReassignablePartition]
    0+       partition_index              int32
    0+       replicas                     [int32]? = null
""",
    response="""
    0+   throttle_time_ms                 int32
    1+   allow_replication_factor_change  bool = true
    0+   error_code                       int16
    0+   error_message                    string?
    0+   responses                        [ReassignableTopicResponse]
    0+     name                           string
    0+     partitions                     [ReassignablePartitionResponse]
    0+       partition_index              int32
    0+       error_code                   int16
    0+       error_message                string?
""",
)

LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    "list_partition_reassignments",
    "0-0",
    flexible=0,
    request="""
    0+   timeout_ms           int32 = 60000
    0+   topics               [ListPartitionReassignmentsTopics]? = null
    0+     name               string
    0+     partition_indexes  [int32]
""",
    response="""
    0+   throttle_time_ms       int32
    0+   error_code             int16
    0+   error_message          string?
    0+   topics                 [OngoingTopicReassignment]
    0+     name                 string
    0+     partitions           [OngoingPartitionReassignment]
    0+       partition_index    int32
    0+       replicas           [int32]
    0+       adding_replicas    [int32]
    0+       removing_replicas  [int32]
""",
)

DESCRIBE_LOG_DIRS = Api(
    35,
    "describe_log_dirs",
    "1-5",
    flexible=2,
    request="""
    1+   topics        [DescribableLogDirTopic]?
    1+     topic       string
    1+     partitions  [int32]
""",
    response="""
    1+   throttle_time_ms       int32
    3+   error_code             int16
    1+   results                [DescribeLogDirsResult]
    1+     error_code           int16
    1+     log_dir              string
    1+     topics               [DescribeLogDirsTopic]
    1+       name               string
    1+       partitions         [DescribeLogDirsPartition]
    1+         partition_index  int32
    1+         partition_size   int64
    1+         offset_lag       int64
    1+         is_future_key    bool
    4+     total_bytes          int64 = -1
    4+     usable_bytes         int64 = -1
    5+     is_cordoned          bool
""",
)
