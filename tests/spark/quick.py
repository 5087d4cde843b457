"""How tests start Java."""

# Each thing runs a few times only: Java's quick compiler, for the thorough one never earns its time back. By itself it
# would get a code cache too small for Spark.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
