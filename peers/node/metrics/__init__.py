"""Metrics in the Prometheus text format: `exposition` puts together what the other modules, one a family, yield."""
