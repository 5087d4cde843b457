"""Classic groups and their coordinator."""

from __future__ import annotations

from dwell.broker.wire.api import Api

FIND_COORDINATOR = Api(
    10,
    "find_coordinator",
    "0-6",
    flexible=3,
    request="""
    0-3  key               string
    1+   key_type          int8
    4+   coordinator_keys  [string]
""",
    response="""
    1+   throttle_time_ms  int32
    0-3  error_code        int16
    1-3  error_message     string?
    0-3  node_id           int32
    0-3  host              string
    0-3  port              int32
    4+   coordinators      [Coordinator]
    4+     key             string
    4+     node_id         int32
    4+     host            string
    4+     port            int32
    4+     error_code      int16
    4+     error_message   string?
""",
)

JOIN_GROUP = Api(
    11,
    "join_group",
    "0-9",
    flexible=6,
    request="""
    0+   group_id              string
    0+   session_timeout_ms    int32
    1+   rebalance_timeout_ms  int32 = -1
    0+   member_id             string
    5+   group_instance_id     string? = null
    0+   protocol_type         string
    0+   protocols             [JoinGroupRequestProtocol]
    0+     name                string
    0+     metadata            bytes
    8+   reason                string? = null
""",
    response="""
    2+   throttle_time_ms     int32
    0+   error_code           int16
    0+   generation_id        int32 = -1
    7+   protocol_type        string? = null
    0+   protocol_name        string?7+
    0+   leader               string
    9+   skip_assignment      bool
    0+   member_id            string
    0+   members              [JoinGroupResponseMember]
    0+     member_id          string
    5+     group_instance_id  string? = null
    0+     metadata           bytes
""",
)

SYNC_GROUP = Api(
    14,
    "sync_group",
    "0-5",
    flexible=4,
    request="""
    0+   group_id           string
    0+   generation_id      int32
    0+   member_id          string
    3+   group_instance_id  string? = null
    5+   protocol_type      string? = null
    5+   protocol_name      string? = null
    0+   assignments        [SyncGroupRequestAssignment]
    0+     member_id        string
    0+     assignment       bytes
""",
    response="""
    1+   throttle_time_ms  int32
    0+   error_code        int16
    5+   protocol_type     string? = null
    5+   protocol_name     string? = null
    0+   assignment        bytes
""",
)

HEARTBEAT = Api(
    12,
    "heartbeat",
    "0-4",
    flexible=4,
    request="""
    0+   group_id           string
    0+   generation_id      int32
    0+   member_id          string
    3+   group_instance_id  string? = null
""",
    response="""
    1+   throttle_time_ms  int32
    0+   error_code        int16
""",
)

LEAVE_GROUP = Api(
    13,
    "leave_group",
    "0-5",
    flexible=4,
    request="""
    0+   group_id             string
    0-2  member_id            string
    3+   members              [MemberIdentity]
    3+     member_id          string
    3+     group_instance_id  string? = null
    5+     reason             string? = null
""",
    response="""
    1+   throttle_time_ms     int32
    0+   error_code           int16
    3+   members              [MemberResponse]
    3+     member_id          string
    3+     group_instance_id  string?
    3+     error_code         int16
""",
)

DESCRIBE_GROUPS = Api(
    15,
    "describe_groups",
    "0-6",
    flexible=5,
    request="""
    0+   groups                         [string]
    3+   include_authorized_operations  bool
""",
    response="""
    1+   throttle_time_ms         int32
    0+   groups                   [DescribedGroup]
    0+     error_code             int16
    6+     error_message          string? = null
    0+     group_id               string
    0+     group_state            string
    0+     protocol_type          string
    0+     protocol_data          string
    0+     members                [DescribedGroupMember]
    0+       member_id            string
    4+       group_instance_id    string? = null
    0+       client_id            string
    0+       client_host          string
    0+       member_metadata      bytes
    0+       member_assignment    bytes
    3+     authorized_operations  int32 = -2147483648
""",
)

LIST_GROUPS = Api(
    16,
    "list_groups",
    "0-5",
    flexible=3,
    request="""
    4+   states_filter  [string]
    5+   types_filter   [string]
""",
    response="""
    1+   throttle_time_ms  int32
    0+   error_code        int16
    0+   groups            [ListedGroup]
    0+     group_id        string
    0+     protocol_type   string
    4+     group_state     string
    5+     group_type      string
""",
)

DELETE_GROUPS = Api(
    42,
    "delete_groups",
    "0-2",
    flexible=2,
    request="""
    0+   groups_names  [string]
""",
    response="""
    0+   throttle_time_ms  int32
    0+   results           [DeletableGroupResult]
    0+     group_id        string
    0+     error_code      int16
""",
)
