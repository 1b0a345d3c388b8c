"""What every analysis builds on: sums, intervals, the call tree, what frameworks register."""
