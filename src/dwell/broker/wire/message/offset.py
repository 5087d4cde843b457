"""Committed offsets."""

from __future__ import annotations

from dwell.broker.wire.api import Api

OFFSET_COMMIT = Api(
    8,
    "offset_commit",
    "2-10",
    flexible=8,
    request="""
    2+   group_id                       string
    2+   generation_id_or_member_epoch  int32 = -1
    2+   member_id                      string
    7+   group_instance_id              string? = null
    2-4  retention_time_ms              int64 = -1
    2+   topics                         [OffsetCommitRequestTopic]
    2-9    name                         string
    10+    topic_id                     uuid
    2+     partitions                   [OffsetCommitRequestPartition]
    2+       partition_index            int32
    2+       committed_offset           int64
    6+       committed_leader_epoch     int32 = -1
    2+       committed_metadata         string?
""",
    response="""
    3+   throttle_time_ms     int32
    2+   topics               [OffsetCommitResponseTopic]
    2-9    name               string
    10+    topic_id           uuid
    2+     partitions         [OffsetCommitResponsePartition]
    2+       partition_index  int32
    2+       error_code       int16
""",
)

OFFSET_FETCH = Api(
    9,
    "offset_fetch",
    "1-10",
    flexible=6,
    request="""
    1-7  group_id               string
    1-7  topics                 [OffsetFetchRequestTopic]?2-7
    1-7    name                 string
    1-7    partition_indexes    [int32]
    8+   groups                 [OffsetFetchRequestGroup]
    8+     group_id             string
    9+     member_id            string? = null
    9+     member_epoch         int32 = -1
    8+     topics               [OffsetFetchRequestTopics]?
    8-9      name               string
    10+      topic_id           uuid
    8+       partition_indexes  [int32]
    7+   require_stable         bool
""",
    response="""
    3+   throttle_time_ms              int32
    1-7  topics                        [OffsetFetchResponseTopic]
    1-7    name                        string
    1-7    partitions                  [OffsetFetchResponsePartition]
    1-7      partition_index           int32
    1-7      committed_offset          int64
    5-7      committed_leader_epoch    int32 = -1
    1-7      metadata                  string?
    1-7      error_code                int16
    2-7  error_code                    int16
    8+   groups                        [OffsetFetchResponseGroup]
    8+     group_id                    string
    8+     topics                      [OffsetFetchResponseTopics]
    8-9      name                      string
    10+      topic_id                  uuid
    8+       partitions                [OffsetFetchResponsePartitions]
    8+         partition_index         int32
    8+         committed_offset        int64
    8+         committed_leader_epoch  int32 = -1
    8+         metadata                string?
    8+         error_code              int16
    8+     error_code                  int16
""",
)

OFFSET_DELETE = Api(
    47,
    "offset_delete",
    "0-0",
    request="""
    0+   group_id             string
    0+   topics               [OffsetDeleteRequestTopic]
    0+     name               string
    0+     partitions         [OffsetDeleteRequestPartition]
    0+       partition_index  int32
""",
    response="""
    0+   error_code           int16
    0+   throttle_time_ms     int32
    0+   topics               [OffsetDeleteResponseTopic]
    0+     name               string
    0+     partitions         [OffsetDeleteResponsePartition]
    0+       partition_index  int32
    0+       error_code       int16
""",
)
