"""Signing in, SCRAM users, access control lists."""

from __future__ import annotations

from dwell.broker.wire.api import Api

SASL_HANDSHAKE = Api(
    17,
    "sasl_handshake",
    "0-1",
    request="""
    0+   mechanism  string
""",
    response="""
    0+   error_code  int16
    0+   mechanisms  [string]
""",
)

SASL_AUTHENTICATE = Api(
    36,
    "sasl_authenticate",
    "0-2",
    flexible=2,
    request="""
    0+   auth_bytes  bytes
""",
    response="""
    0+   error_code           int16
    0+   error_message        string?
    0+   auth_bytes           bytes
    1+   session_lifetime_ms  int64
""",
)

DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50,
    "describe_user_scram_credentials",
    "0-0",
    flexible=0,
    request="""
    0+   users   [UserName]?
    0+     name  string
""",
    response="""
    0+   throttle_time_ms    int32
    0+   error_code          int16
    0+   error_message       string?
    0+   results             [DescribeUserScramCredentialsResult]
    0+     user              string
    0+     error_code        int16
    0+     error_message     string?
    0+     credential_infos  [CredentialInfo]
    0+       mechanism       int8
    0+       iterations      int32
""",
)

ALTER_USER_SCRAM_CREDENTIALS = Api(
    51,
    "alter_user_scram_credentials",
    "0-0",
    flexible=0,
    request="""
    0+   deletions          [ScramCredentialDeletion]
    0+     name             string
    0+     mechanism        int8
    0+   upsertions         [ScramCredentialUpsertion]
    0+     name             string
    0+     mechanism        int8
    0+     iterations       int32
    0+     salt             bytes
    0+     salted_password  bytes
""",
    response="""
    0+   throttle_time_ms  int32
    0+   results           [AlterUserScramCredentialsResult]
    0+     user            string
    0+     error_code      int16
    0+     error_message   string?
""",
)

DESCRIBE_ACLS = Api(
    29,
    "describe_acls",
    "1-3",
    flexible=2,
    request="""
    1+   resource_type_filter  int8
    1+   resource_name_filter  string?
    1+   pattern_type_filter   int8 = 3
    1+   principal_filter      string?
    1+   host_filter           string?
    1+   operation             int8
    1+   permission_type       int8
""",
    response="""
    1+   throttle_time_ms     int32
    1+   error_code           int16
    1+   error_message        string?
    1+   resources            [DescribeAclsResource]
    1+     resource_type      int8
    1+     resource_name      string
    1+     pattern_type       int8 = 3
    1+     acls               [AclDescription]
    1+       principal        string
    1+       host             string
    1+       operation        int8
    1+       permission_type  int8
""",
)

CREATE_ACLS = Api(
    30,
    "create_acls",
    "1-3",
    flexible=2,
    request="""
    1+   creations                [AclCreation]
    1+     resource_type          int8
    1+     resource_name          string
    1+     resource_pattern_type  int8 = 3
    1+     principal              string
    1+     host                   string
    1+     operation              int8
    1+     permission_type        int8
""",
    response="""
    1+   throttle_time_ms  int32
    1+   results           [AclCreationResult]
    1+     error_code      int16
    1+     error_message   string?
""",
)

DELETE_ACLS = Api(
    31,
    "delete_acls",
    "1-3",
    flexible=2,
    request="""
    1+   filters                 [DeleteAclsFilter]
    1+     resource_type_filter  int8
    1+     resource_name_filter  string?
    1+     pattern_type_filter   int8 = 3
    1+     principal_filter      string?
    1+     host_filter           string?
    1+     operation             int8
    1+     permission_type       int8
""",
    response="""
    1+   throttle_time_ms     int32
    1+   filter_results       [DeleteAclsFilterResult]
    1+     error_code         int16
    1+     error_message      string?
    1+     matching_acls      [DeleteAclsMatchingAcl]
    1+       error_code       int16
    1+       error_message    string?
    1+       resource_type    int8
    1+       resource_name    string
    1+       pattern_type     int8 = 3
    1+       principal        string
    1+       host             string
    1+       operation        int8
    1+       permission_type  int8
""",
)
