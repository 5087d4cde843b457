"""Transactions and the producers in them."""

from __future__ import annotations

from dwell.broker.wire.api import Api

ADD_PARTITIONS_TO_TXN = Api(
    24,
    "add_partitions_to_txn",
    "0-5",
    flexible=3,
    request="""
    4+   transactions                   [AddPartitionsToTxnTransaction]
    4+     transactional_id             string
    4+     producer_id                  int64
    4+     producer_epoch               int16
    4+     verify_only                  bool
    4+     topics                       [AddPartitionsToTxnTopic]
    0+       name                       string
    0+       partitions                 [int32]
    0-3  v3_and_below_transactional_id  string
    0-3  v3_and_below_producer_id       int64
    0-3  v3_and_below_producer_epoch    int16
    0-3  v3_and_below_topics            [AddPartitionsToTxnTopic]
""",
    response="""
    0+   throttle_time_ms               int32
    4+   error_code                     int16
    4+   results_by_transaction         [AddPartitionsToTxnResult]
    4+     transactional_id             string
    4+     topic_results                [AddPartitionsToTxnTopicResult]
    0+       name                       string
    0+       results_by_partition       [AddPartitionsToTxnPartitionResult]
    0+         partition_index          int32
    0+         partition_error_code     int16
    0-3  results_by_topic_v3_and_below  [AddPartitionsToTxnTopicResult]
""",
)

ADD_OFFSETS_TO_TXN = Api(
    25,
    "add_offsets_to_txn",
    "0-4",
    flexible=3,
    request="""
    0+   transactional_id  string
    0+   producer_id       int64
    0+   producer_epoch    int16
    0+   group_id          string
""",
    response="""
    0+   throttle_time_ms  int32
    0+   error_code        int16
""",
)

END_TXN = Api(
    26,
    "end_txn",
    "0-5",
    flexible=3,
    request="""
    0+   transactional_id  string
    0+   producer_id       int64
    0+   producer_epoch    int16
    0+   committed         bool
""",
    response="""
    0+   throttle_time_ms  int32
    0+   error_code        int16
    5+   producer_id       int64 = -1
    5+   producer_epoch    int16 = -1
""",
)

TXN_OFFSET_COMMIT = Api(
    28,
    "txn_offset_commit",
    "0-5",
    flexible=3,
    request="""
    0+   transactional_id            string
    0+   group_id                    string
    0+   producer_id                 int64
    0+   producer_epoch              int16
    3+   generation_id               int32 = -1
    3+   member_id                   string
    3+   group_instance_id           string? = null
    0+   topics                      [TxnOffsetCommitRequestTopic]
    0+     name                      string
    0+     partitions                [TxnOffsetCommitRequestPartition]
    0+       partition_index         int32
    0+       committed_offset        int64
    2+       committed_leader_epoch  int32 = -1
    0+       committed_metadata      string?
""",
    response="""
    0+   throttle_time_ms     int32
    0+   topics               [TxnOffsetCommitResponseTopic]
    0+     name               string
    0+     partitions         [TxnOffsetCommitResponsePartition]
    0+       partition_index  int32
    0+       error_code       int16
""",
)

DESCRIBE_TRANSACTIONS = Api(
    65,
    "describe_transactions",
    "0-0",
    flexible=0,
    request="""
    0+   transactional_ids  [string]
""",
    response="""
    0+   throttle_time_ms             int32
    0+   transaction_states           [TransactionState]
    0+     error_code                 int16
    0+     transactional_id           string
    0+     transaction_state          string
    0+     transaction_timeout_ms     int32
    0+     transaction_start_time_ms  int64
    0+     producer_id                int64
    0+     producer_epoch             int16
    0+     topics                     [TopicData]
    0+       topic                    string
    0+       partitions               [int32]
""",
)

LIST_TRANSACTIONS = Api(
    66,
    "list_transactions",
    "0-2",
    flexible=0,
    request="""
    0+   state_filters             [string]
    0+   producer_id_filters       [int64]
    1+   duration_filter           int64 = -1
    2+   transactional_id_pattern  string? = null
""",
    response="""
    0+   throttle_time_ms       int32
    0+   error_code             int16
    0+   unknown_state_filters  [string]
    0+   transaction_states     [TransactionState]
    0+     transactional_id     string
    0+     producer_id          int64
    0+     transaction_state    string
""",
)

DESCRIBE_PRODUCERS = Api(
    61,
    "describe_producers",
    "0-0",
    flexible=0,
    request="""
    0+   topics               [TopicRequest]
    0+     name               string
    0+     partition_indexes  [int32]
""",
    response="""
    0+   throttle_time_ms                int32
    0+   topics                          [TopicResponse]
    0+     name                          string
    0+     partitions                    [PartitionResponse]
    0+       partition_index             int32
    0+       error_code                  int16
    0+       error_message               string? = null
    0+       active_producers            [ProducerState]
    0+         producer_id               int64
    0+         producer_epoch            int32
    0+         last_sequence             int32 = -1
    0+         last_timestamp            int64 = -1
    0+         coordinator_epoch         int32
    0+         current_txn_start_offset  int64 = -1
""",
)
