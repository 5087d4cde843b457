"""The compiled twin has the types of the readable build."""

from dwell.ledger.engine import Engine as Engine
from dwell.ledger.ledger import Ledger as Ledger
from dwell.ledger.operation import Operation as Operation
from dwell.ledger.replay import Replay as Replay
from dwell.ledger.replay import replay as replay
from dwell.ledger.ticket import Ticket as Ticket
