# To a type checker, the compiled classes are the readable ones. A test compares their signatures.

from dwell.purgatory.operation import DelayedOperation as DelayedOperation
from dwell.purgatory.purgatory import Purgatory as Purgatory
