"""The report: who sent how much and when, where nothing came, which offsets are absent.

```
survey ──▶ Spark: three scans, whose results are small ──▶ findings ──▶ page (HTML)
```
"""
