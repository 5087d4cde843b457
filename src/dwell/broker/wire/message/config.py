"""Configurations of topics and brokers."""

from __future__ import annotations

from dwell.broker.wire.api import Api

DESCRIBE_CONFIGS = Api(
    32,
    "describe_configs",
    "1-4",
    flexible=4,
    request="""
    1+   resources              [DescribeConfigsResource]
    1+     resource_type        int8
    1+     resource_name        string
    1+     configuration_keys   [string]?
    1+   include_synonyms       bool
    3+   include_documentation  bool
""",
    response="""
    1+   throttle_time_ms   int32
    1+   results            [DescribeConfigsResult]
    1+     error_code       int16
    1+     error_message    string?
    1+     resource_type    int8
    1+     resource_name    string
    1+     configs          [DescribeConfigsResourceResult]
    1+       name           string
    1+       value          string?
    1+       read_only      bool
    1+       config_source  int8 = -1
    1+       is_sensitive   bool
    1+       synonyms       [DescribeConfigsSynonym]
    1+         name         string
    1+         value        string?
    1+         source       int8
    3+       config_type    int8
    3+       documentation  string?
""",
)

ALTER_CONFIGS = Api(
    33,
    "alter_configs",
    "0-2",
    flexible=2,
    request="""
    0+   resources        [AlterConfigsResource]
    0+     resource_type  int8
    0+     resource_name  string
    0+     configs        [AlterableConfig]
    0+       name         string
    0+       value        string?
    0+   validate_only    bool
""",
    response="""
    0+   throttle_time_ms  int32
    0+   responses         [AlterConfigsResourceResponse]
    0+     error_code      int16
    0+     error_message   string?
    0+     resource_type   int8
    0+     resource_name   string
""",
)

INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "incremental_alter_configs",
    "0-1",
    flexible=1,
    request="""
    0+   resources             [AlterConfigsResource]
    0+     resource_type       int8
    0+     resource_name       string
    0+     configs             [AlterableConfig]
    0+       name              string
    0+       config_operation  int8
    0+       value             string?
    0+   validate_only         bool
""",
    response="""
    0+   throttle_time_ms  int32
    0+   responses         [AlterConfigsResourceResponse]
    0+     error_code      int16
    0+     error_message   string?
    0+     resource_type   int8
    0+     resource_name   string
""",
)
