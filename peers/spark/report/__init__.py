"""What an archive holds: who sent how much and when, where nothing came, which offsets are absent.

```
survey ──▶ traffic, timeline, offsets      Spark: three scans, whose results are small
   └─────▶ findings ──▶ page, tables       HTML with drawings, CSV
```
"""
