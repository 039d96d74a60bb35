"""Every public function beside every peer that has it: `python -m benchmarks.functions`."""
