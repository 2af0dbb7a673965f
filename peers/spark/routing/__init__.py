"""Which subscriber would get which message of an archive: the hub's own matching, run as a distributed job.

```
route ──▶ by_topic      distinct topics are matched by the hub's multimap and joined back      few topics
   └────▶ exploded      messages are joined at each length that a prefix has                   too many topics
             └──────▶ matcher ──▶ subscriptions, hub.multimap
```
"""
