"""Reading records and finding offsets."""

from __future__ import annotations

from dwell.broker.wire.api import Api

FETCH = Api(
    1,
    "fetch",
    "4-18",
    flexible=12,
    request="""
    12+   cluster_id                string? = null               tag 0
    4-14  replica_id                int32 = -1
    15+   replica_state             {ReplicaState}               tag 1
    15+     replica_id              int32 = -1
    15+     replica_epoch           int64 = -1
    4+    max_wait_ms               int32
    4+    min_bytes                 int32
    4+    max_bytes                 int32 = 2147483647
    4+    isolation_level           int8
    7+    session_id                int32
    7+    session_epoch             int32 = -1
    4+    topics                    [FetchTopic]
    4-12    topic                   string
    13+     topic_id                uuid
    4+      partitions              [FetchPartition]
    4+        partition             int32
    9+        current_leader_epoch  int32 = -1
    4+        fetch_offset          int64
    12+       last_fetched_epoch    int32 = -1
    5+        log_start_offset      int64 = -1
    4+        partition_max_bytes   int32
    17+       replica_directory_id  uuid                         tag 0
    18+       high_watermark        int64 = 9223372036854775807  tag 1
    7+    forgotten_topics_data     [ForgottenTopic]
    7-12    topic                   string
    13+     topic_id                uuid
    7+      partitions              [int32]
    11+   rack_id                   string
""",
    response="""
    4+    throttle_time_ms            int32
    7+    error_code                  int16
    7+    session_id                  int32
    4+    responses                   [FetchableTopicResponse]
    4-12    topic                     string
    13+     topic_id                  uuid
    4+      partitions                [PartitionData]
    4+        partition_index         int32
    4+        error_code              int16
    4+        high_watermark          int64
    4+        last_stable_offset      int64 = -1
    5+        log_start_offset        int64 = -1
    12+       diverging_epoch         {EpochEndOffset}    tag 0
    12+         epoch                 int32 = -1
    12+         end_offset            int64 = -1
    12+       current_leader          {LeaderIdAndEpoch}  tag 1
    12+         leader_id             int32 = -1
    12+         leader_epoch          int32 = -1
    12+       snapshot_id             {SnapshotId}        tag 2
    12+         end_offset            int64 = -1
    12+         epoch                 int32 = -1
    4+        aborted_transactions    [AbortedTransaction]?
    4+          producer_id           int64
    4+          first_offset          int64
    11+       preferred_read_replica  int32 = -1
    4+        records                 records?
    16+   node_endpoints              [NodeEndpoint]      tag 0
    16+     node_id                   int32
    16+     host                      string
    16+     port                      int32
    16+     rack                      string? = null
""",
)

LIST_OFFSETS = Api(
    2,
    "list_offsets",
    "1-11",
    flexible=6,
    request="""
    1+   replica_id                int32
    2+   isolation_level           int8
    1+   topics                    [ListOffsetsTopic]
    1+     name                    string
    1+     partitions              [ListOffsetsPartition]
    1+       partition_index       int32
    4+       current_leader_epoch  int32 = -1
    1+       timestamp             int64
    10+  timeout_ms                int32
""",
    response="""
    2+   throttle_time_ms     int32
    1+   topics               [ListOffsetsTopicResponse]
    1+     name               string
    1+     partitions         [ListOffsetsPartitionResponse]
    1+       partition_index  int32
    1+       error_code       int16
    1+       timestamp        int64 = -1
    1+       offset           int64 = -1
    4+       leader_epoch     int32 = -1
""",
)

OFFSET_FOR_LEADER_EPOCH = Api(
    23,
    "offset_for_leader_epoch",
    "2-4",
    flexible=4,
    request="""
    3+   replica_id                int32 = -2
    2+   topics                    [OffsetForLeaderTopic]
    2+     topic                   string
    2+     partitions              [OffsetForLeaderPartition]
    2+       partition             int32
    2+       current_leader_epoch  int32 = -1
    2+       leader_epoch          int32
""",
    response="""
    2+   throttle_time_ms  int32
    2+   topics            [OffsetForLeaderTopicResult]
    2+     topic           string
    2+     partitions      [EpochEndOffset]
    2+       error_code    int16
    2+       partition     int32
    2+       leader_epoch  int32 = -1
    2+       end_offset    int64 = -1
""",
)
