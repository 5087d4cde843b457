"""What the cluster is: versions, brokers, topics."""

from __future__ import annotations

from dwell.broker.wire.api import Api

API_VERSIONS = Api(
    18,
    "api_versions",
    "0-4",
    flexible=3,
    request="""
    3+   client_software_name     string
    3+   client_software_version  string
""",
    response="""
    0+   error_code                int16
    0+   api_keys                  [ApiVersion]
    0+     api_key                 int16
    0+     min_version             int16
    0+     max_version             int16
    1+   throttle_time_ms          int32
    3+   supported_features        [SupportedFeatureKey]  tag 0
    3+     name                    string
    3+     min_version             int16
    3+     max_version             int16
    3+   finalized_features_epoch  int64 = -1             tag 1
    3+   finalized_features        [FinalizedFeatureKey]  tag 2
    3+     name                    string
    3+     max_version_level       int16
    3+     min_version_level       int16
    3+   zk_migration_ready        bool                   tag 3
""",
)

METADATA = Api(
    3,
    "metadata",
    "0-13",
    flexible=9,
    request="""
    0+    topics                                 [MetadataRequestTopic]?1+
    10+     topic_id                             uuid
    0+      name                                 string?10+
    4+    allow_auto_topic_creation              bool = true
    8-10  include_cluster_authorized_operations  bool
    8+    include_topic_authorized_operations    bool
""",
    response="""
    3+    throttle_time_ms               int32
    0+    brokers                        [MetadataResponseBroker]
    0+      node_id                      int32
    0+      host                         string
    0+      port                         int32
    1+      rack                         string? = null
    2+    cluster_id                     string? = null
    1+    controller_id                  int32 = -1
    0+    topics                         [MetadataResponseTopic]
    0+      error_code                   int16
    0+      name                         string?12+
    10+     topic_id                     uuid
    1+      is_internal                  bool
    0+      partitions                   [MetadataResponsePartition]
    0+        error_code                 int16
    0+        partition_index            int32
    0+        leader_id                  int32
    7+        leader_epoch               int32 = -1
    0+        replica_nodes              [int32]
    0+        isr_nodes                  [int32]
    5+        offline_replicas           [int32]
    8+      topic_authorized_operations  int32 = -2147483648
    8-10  cluster_authorized_operations  int32 = -2147483648
    13+   error_code                     int16
""",
)

DESCRIBE_CLUSTER = Api(
    60,
    "describe_cluster",
    "0-2",
    flexible=0,
    request="""
    0+   include_cluster_authorized_operations  bool
    1+   endpoint_type                          int8 = 1
    2+   include_fenced_brokers                 bool
""",
    response="""
    0+   throttle_time_ms               int32
    0+   error_code                     int16
    0+   error_message                  string? = null
    1+   endpoint_type                  int8 = 1
    0+   cluster_id                     string
    0+   controller_id                  int32 = -1
    0+   brokers                        [DescribeClusterBroker]
    0+     broker_id                    int32
    0+     host                         string
    0+     port                         int32
    0+     rack                         string? = null
    2+     is_fenced                    bool
    0+   cluster_authorized_operations  int32 = -2147483648
""",
)

DESCRIBE_TOPIC_PARTITIONS = Api(
    75,
    "describe_topic_partitions",
    "0-0",
    flexible=0,
    request="""
    0+   topics                    [TopicRequest]
    0+     name                    string
    0+   response_partition_limit  int32 = 2000
    0+   cursor                    {Cursor}? = null
    0+     topic_name              string
    0+     partition_index         int32
""",
    response="""
    0+   throttle_time_ms               int32
    0+   topics                         [DescribeTopicPartitionsResponseTopic]
    0+     error_code                   int16
    0+     name                         string?
    0+     topic_id                     uuid
    0+     is_internal                  bool
    0+     partitions                   [DescribeTopicPartitionsResponsePartition]
    0+       error_code                 int16
    0+       partition_index            int32
    0+       leader_id                  int32
    0+       leader_epoch               int32 = -1
    0+       replica_nodes              [int32]
    0+       isr_nodes                  [int32]
    0+       eligible_leader_replicas   [int32]? = null
    0+       last_known_elr             [int32]? = null
    0+       offline_replicas           [int32]
    0+     topic_authorized_operations  int32 = -2147483648
    0+   next_cursor                    {Cursor}? = null
    0+     topic_name                   string
    0+     partition_index              int32
""",
)
