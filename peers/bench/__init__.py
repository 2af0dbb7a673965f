"""`hub bench`: rate, CPU time, latency and losses of a hub; publishers and subscribers are processes of their own."""
