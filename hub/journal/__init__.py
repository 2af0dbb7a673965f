"""The journal's format: blocks of records, and how they are made, cut, joined and turned back into frames.

```
block ─┬▶ packing ───┬▶ layout        Block, Record ─▶ pack, select, merge ─▶ where the sections of a block stand
       └▶ unpacking ─┴▶ values                         to_frames              where a value of msgpack ends
```

No files, no clock: blocks are bytes, times are arguments. Where blocks are kept and how they travel is in `peers`.
"""
