"""Writing records."""

from __future__ import annotations

from dwell.broker.wire.api import Api

PRODUCE = Api(
    0,
    "produce",
    "3-13",
    flexible=9,
    request="""
    3+    transactional_id  string? = null
    3+    acks              int16
    3+    timeout_ms        int32
    3+    topic_data        [TopicProduceData]
    3-12    name            string
    13+     topic_id        uuid
    3+      partition_data  [PartitionProduceData]
    3+        index         int32
    3+        records       records?
""",
    response="""
    3+    responses                        [TopicProduceResponse]
    3-12    name                           string
    13+     topic_id                       uuid
    3+      partition_responses            [PartitionProduceResponse]
    3+        index                        int32
    3+        error_code                   int16
    3+        base_offset                  int64
    3+        log_append_time_ms           int64 = -1
    5+        log_start_offset             int64 = -1
    8+        record_errors                [BatchIndexAndErrorMessage]
    8+          batch_index                int32
    8+          batch_index_error_message  string? = null
    8+        error_message                string? = null
    10+       current_leader               {LeaderIdAndEpoch}  tag 0
    10+         leader_id                  int32 = -1
    10+         leader_epoch               int32 = -1
    3+    throttle_time_ms                 int32
    10+   node_endpoints                   [NodeEndpoint]      tag 0
    10+     node_id                        int32
    10+     host                           string
    10+     port                           int32
    10+     rack                           string? = null
""",
)

INIT_PRODUCER_ID = Api(
    22,
    "init_producer_id",
    "0-5",
    flexible=2,
    request="""
    0+   transactional_id        string?
    0+   transaction_timeout_ms  int32
    3+   producer_id             int64 = -1
    3+   producer_epoch          int16 = -1
""",
    response="""
    0+   throttle_time_ms  int32
    0+   error_code        int16
    0+   producer_id       int64 = -1
    0+   producer_epoch    int16
""",
)
