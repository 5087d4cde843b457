"""What a client may do, as bits: all that Kafka allows where nobody set up an authorizer.

Bit n stands for operation n of Kafka's list: 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster
action, 10 describe configs, 11 alter configs, 12 idempotent write.
"""

from __future__ import annotations

TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
